"""How a model is loaded and run on this machine: what fits, what works, what is fastest; measured once and kept."""
