"""A child process for tests: does what each message says, and answers it."""

import os
import signal
import subprocess
import sys
import threading
import time

from localrag.system.child_process import ParentConnection

parent = ParentConnection()
while True:
    message = parent.receive()
    match message["do"]:
        case "echo":
            sys.stdout.write("noise on stdout\n")
            parent.send(message)
        case "fail":
            raise ValueError("the disk is full")
        case "exit":
            sys.stderr.write("nothing to do\n")
            os._exit(7)
        case "signal":
            signal.raise_signal(message["signal"])
        case "hang":
            time.sleep(600)
        case "read stdin":
            parent.send(subprocess.run(["cat"], capture_output=True, text=True, check=True, timeout=60).stdout)
        case "listen":
            threads = [threading.Thread(target=parent.send, args=({"n": n, "text": "x" * 300_000},)) for n in range(8)]
            for thread in threads:
                thread.start()
            parent.listen(parent.send)
            time.sleep(600)
