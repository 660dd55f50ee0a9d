"""A llama.cpp server in a process of its own: `python llama_server.py MODEL RAY_PORT SLOTS CONTEXT`; it lives until it is killed."""

import sys
import time

import xllamacpp

if __name__ == "__main__":
    model, port, slots, context = sys.argv[1:5]
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.hostnames = ["127.0.0.1"]
    parameters.port, parameters.n_parallel, parameters.n_ctx = int(port), int(slots), int(slots) * int(context)
    parameters.no_extra_bufts = True  # AMX kernels of some builds crash
    parameters.warmup = False
    parameters.cpuparams.n_threads = 1  # two would spin against whatever else runs
    server = xllamacpp.Server(parameters)
    while True:
        time.sleep(60)
