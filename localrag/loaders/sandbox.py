"""Sandbox of the parser process on Linux, also for native code: a seccomp filter for system calls, and Landlock for files.

The filter is a classic BPF program (`man 2 seccomp`) over the number and arguments of a system call. It allows a table of calls that affect
only this process: memory, locks between threads, clocks, reading. All others fail with EPERM, and calls newer than the table with ENOSYS:
connections, other processes, signals, priorities, and everything that writes, creates, moves or removes a file. A filter cannot see paths;
Landlock (`man 7 landlock`) allows opening files below given folders only.

As a program, `sandbox.py MAX_MEMORY SECONDS FOLDERS PROGRAM ARGUMENT…` executes another program under the same limits. It imports nothing
else of localrag, so it starts in 40 ms.
"""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable, Sequence

_ARCHES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # (column of the table below, the kernel's id of the architecture)
_ALLOWED = """
    read 0 63|pread64 17 67|lseek 8 62|fstat 5 80|newfstatat 262 79|mmap 9 222|munmap 11 215|mremap 25 216|brk 12 214|futex 202 98
    stat 4|lstat 6|statx 332 291|access 21|faccessat 269 48|faccessat2 439 439|readlink 89|readlinkat 267 78|statfs 137 43|fstatfs 138 44
    readv 19 65|preadv 295 69|preadv2 327 286|getdents 78|getdents64 217 61|getcwd 79 17|fadvise64 221 223|readahead 187 213
    write 1 64|writev 20 66|close 3 57|close_range 436 436|dup 32 23|dup2 33|dup3 292 24|poll 7|ppoll 271 73|select 23|pselect6 270 72
    mprotect 10 226|madvise 28 233|msync 26 227|mincore 27 232|membarrier 324 283|mseal 462 462
    pkey_alloc 330 289|pkey_free 331 290|pkey_mprotect 329 288|futex_waitv 449 449|futex_wake 454 454|futex_wait 455 455
    futex_requeue 456 456|set_robust_list 273 99|get_robust_list 274 100|rseq 334 293|set_tid_address 218 96|arch_prctl 158
    restart_syscall 219 128|rt_sigaction 13 134|rt_sigprocmask 14 135|rt_sigreturn 15 139
    rt_sigpending 127 136|rt_sigtimedwait 128 137|rt_sigsuspend 130 133
    sigaltstack 131 132|pause 34|alarm 37|setitimer 38 103|getitimer 36 102|nanosleep 35 101|clock_nanosleep 230 115
    clock_gettime 228 113|clock_getres 229 114|gettimeofday 96 169|time 201|times 100 153|getrusage 98 165|getrlimit 97 163
    getpid 39 172|getppid 110 173|gettid 186 178|getuid 102 174|geteuid 107 175|getgid 104 176|getegid 108 177|getgroups 115 158
    getpgrp 111|getpgid 121 155|getsid 124 156|uname 63 160|sysinfo 99 179|getcpu 309 168|getrandom 318 278
    sched_yield 24 124|sched_getaffinity 204 123|sched_get_priority_max 146 125|sched_get_priority_min 147 126|exit 60 93|exit_group 231 94
"""
_ABSENT = "clone3 435 435|openat2 437 437"  # their arguments are in memory, which a filter cannot read; libraries fall back to older calls
_NEWEST = 462  # the newest call considered in the table; those of the x32 ABI start at 2**30
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ASYNC = 0x2000  # O_ASYNC: signals the descriptor's owner when there is something to read
_FCNTL = (0, 1, 2, 3, 1030)  # duplicate a descriptor, read or set close-on-exec; not owners, leases and locks
_IOCTL = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_PRCTL = (3, 15, 16, 21, 23, 38, 39)  # read or set the process's own name and state
_EPERM, _ENOSYS = 1, 38

_LOAD, _EQUAL, _ABOVE, _AND_ANY, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # offsets in `struct seccomp_data`; an argument has eight bytes, the lower four first

_LANDLOCK = 444, 445, 446  # create a ruleset, add a rule, restrict this process; the numbers are the same on every architecture
_EXECUTE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # version → added rights: the first ones, refer, truncate, ioctl
SCOPED = 6  # the first version of Landlock that can forbid signals and abstract sockets to outside processes
SYSTEM_FOLDERS = """
    /lib /lib32 /lib64 /usr/lib /usr/lib32 /usr/lib64 /usr/local/lib /usr/local/lib64 /nix/store /gnu/store /etc/ld.so.cache
    /etc/ld-musl-x86_64.path /etc/ld-musl-aarch64.path
    /usr/share/zoneinfo /etc/localtime /usr/share/locale /usr/share/fonts /usr/local/share/fonts /usr/share/X11/fonts
""".split()  # shared libraries and their data: time zones, fonts


def apply_sandbox(readable: Iterable[str] = (), *, start: int = 0, receives: bool = False) -> bool:
    """Restrict this process irrevocably to parsing; returns whether the kernel supports it (Linux on x86_64 or ARM64).

    `readable`: folders and files that may still be opened, if the kernel has Landlock (`landlock_version`). `start`: the memory address of
    the only path that may be executed; the new program has other memory, so it can execute none. `receives`: allow receiving descriptors
    through stdin, a socket.
    """
    if sys.platform != "linux" or platform.machine() not in _ARCHES or sys.maxsize < 2**32:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    column, arch = _ARCHES[platform.machine()]
    if libc.prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS
        return False
    _landlock(libc, readable, _EXECUTE if start else 0)
    program = _filter(column, arch, start, receives=receives)
    code = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
    seccomp, all_threads = (317, 277)[column], 1
    return bool(libc.syscall(seccomp, 1, all_threads, header) == 0 or libc.prctl(22, 2, header, 0, 0) == 0)  # PR_SET_SECCOMP


def landlock_version() -> int:
    """The kernel's version of Landlock; 0 if it is missing or disabled."""
    return max(0, ctypes.CDLL(None).syscall(_LANDLOCK[0], None, 0, 1)) if sys.platform == "linux" else 0


def _landlock(libc: ctypes.CDLL, readable: Iterable[str], executes: int) -> None:
    """Forbid opening files except to read those in `readable`, and, if supported, TCP and signals to outside processes."""
    create, add, restrict = _LANDLOCK
    version = landlock_version()
    if not version:
        return
    files = sum(rights for from_version, rights in _FILE_RIGHTS.items() if version >= from_version)
    handled = (files, *((0b11,) if version >= 4 else ()), *((0b11,) if version >= SCOPED else ()))  # older kernels take fewer fields
    packed = struct.pack(f"={len(handled)}Q", *handled)
    rules = libc.syscall(create, ctypes.create_string_buffer(packed, len(packed)), len(packed), 0)
    if rules < 0:
        return
    for path in readable:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rights = _READ_FILE | executes | (_READ_FOLDER if os.path.isdir(path) else 0)  # noqa: PTH112 - pathlib takes 10 ms to load
        libc.syscall(add, rules, 1, ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor), 12), 0)
        os.close(descriptor)
    libc.syscall(restrict, rules, 0)
    os.close(rules)


def _filter(column: int, arch: int, start: int, *, receives: bool) -> bytes:
    refuse, absent, allow = (_op(_RETURN, value) for value in (_FAIL | _EPERM, _FAIL | _ENOSYS, _ALLOW))
    lines = [_op(_LOAD, _ARCH), _op(_EQUAL, arch, 1, 0), _op(_RETURN, _KILL), _op(_LOAD, _NUMBER)]
    lines += [_op(_ABOVE, _NEWEST, 0, 1), absent]
    lines += [line for number in _numbers(_ALLOWED, column) for line in (_op(_EQUAL, number, 0, 1), allow)]
    lines += [line for number in _numbers(_ABSENT, column) for line in (_op(_EQUAL, number, 0, 1), absent)]

    def add(call: str, *then: bytes) -> None:
        """Check the arguments of a call by the instructions `then`, and refuse it unless they allow it."""
        for number in _numbers(call, column):
            lines.extend((_op(_EQUAL, number, 0, len(then) + 1), *then, refuse))

    for call, argument in {"open 2": 1, "openat 257 56": 2}.items():
        add(call, _load_argument(argument), _op(_AND_ANY, _WRITES, 1, 0), allow)
    set_flags = (_op(_EQUAL, 4, 0, 3), _load_argument(2), _op(_AND_ANY, _ASYNC, 1, 0), allow)  # F_SETFL
    add("fcntl 72 25", _load_argument(1), *_allow_any(_FCNTL), *set_flags)
    add("ioctl 16 29", _load_argument(1), *_allow_any(_IOCTL))
    add("prctl 157 167", _load_argument(0), *_allow_any(_PRCTL))
    for call in ("tgkill 234 131", "tkill 200 130"):  # only to this process: abort() uses them
        add(call, _load_argument(0), *_allow_any((os.getpid(),)))
    new = _FIRST_ARGUMENT + 8 * 2  # address of the new limit: only RLIMIT_CPU (0) of this process may be set, all limits may be read
    reads = (_op(_LOAD, new), _op(_EQUAL, 0, 0, 3), _op(_LOAD, new + 4), _op(_EQUAL, 0, 0, 1), allow)
    add("prlimit64 302 261", _load_argument(0), _op(_EQUAL, 0, 0, 8), _load_argument(1), *_allow_any((0,)), *reads)
    if receives:
        add("recvmsg 47 212", _load_argument(0), *_allow_any((0,)))
    if start:
        low, high = start & 0xFFFFFFFF, start >> 32
        add("execve 59 221", _load_argument(0), _op(_EQUAL, low, 0, 3), _op(_LOAD, _FIRST_ARGUMENT + 4), _op(_EQUAL, high, 0, 1), allow)
    return b"".join([*lines, refuse])


def _load_argument(n: int) -> bytes:
    """Load the lower half of argument `n`, from 0: the kernel uses no more of a number, flag or descriptor."""
    return _op(_LOAD, _FIRST_ARGUMENT + 8 * n)


def _allow_any(values: Sequence[int]) -> list[bytes]:
    """Allow the call if the loaded value is one of these; otherwise continue."""
    return [line for value in values for line in (_op(_EQUAL, value, 0, 1), _op(_RETURN, _ALLOW))]


def _op(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """An instruction; `then` and `otherwise`: the number of instructions to skip if a comparison is true or false."""
    return struct.pack("=HBBI", code, then, otherwise, value)


def _numbers(calls: str, column: int) -> list[int]:
    """The numbers of the table's calls in a column; not every architecture has every call."""
    rows = (call.split() for line in calls.strip().splitlines() for call in line.split("|"))
    return [int(row[1 + column]) for row in rows if len(row) > 1 + column]


def exec_confined(program: str, arguments: list[str], memory: int, seconds: int, folders: list[str]) -> None:
    """Execute another program in this process, within the sandbox and with limits of memory (bytes), CPU time and one thread.

    It may read shared libraries, also those in its ../lib (as in conda), and files below `folders`.
    """
    import resource

    limits = ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds))
    zero_limits = ((limit, 0) for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC))
    for limit, value in (*limits, *zero_limits):
        try:
            resource.setrlimit(limit, (value, value))
        except (ValueError, OSError):  # not every system knows every limit
            continue
    path = ctypes.create_string_buffer(os.fsencode(program))
    argument_values = [os.fsencode(a) for a in (program, *arguments)]
    values = [os.fsencode(f"{name}={value}") for name, value in os.environ.items()]
    libc = ctypes.CDLL(None, use_errno=True)
    argv, envp = (
        (ctypes.c_char_p * (len(argument_values) + 1))(*argument_values, None),
        (ctypes.c_char_p * (len(values) + 1))(*values, None),
    )
    beside = os.path.join(os.path.dirname(os.path.dirname(program)), "lib")  # noqa: PTH118, PTH120 - pathlib takes 10 ms to load
    apply_sandbox([program, beside, *folders, *shared_libraries()], start=ctypes.addressof(path))
    libc.execve(path, argv, envp)
    sys.exit(f"{program} cannot be started: {os.strerror(ctypes.get_errno())}")


def shared_libraries() -> list[str]:
    """The system's folders of shared libraries and their data, and those of LD_LIBRARY_PATH."""
    return [*SYSTEM_FOLDERS, *filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))]


if __name__ == "__main__":
    exec_confined(sys.argv[4], sys.argv[5:], int(sys.argv[1]), int(sys.argv[2]), list(filter(None, sys.argv[3].split(os.pathsep))))
