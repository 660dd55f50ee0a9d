"""Engine settings measured for this machine: which layouts fit, which work, and which is fastest; measured once and stored."""
