"""What the Linux kernel refuses the process that parses, whatever native code in it does: a seccomp filter, and Landlock for files.

The filter is a classic BPF program (`man 2 seccomp`) over the number of a system call and its arguments. It refuses connections, other
processes, signals to others, and whatever writes, makes, moves or removes a file; calls that came after it was written are not known there.

As a program, `sandbox.py MEMORY SECONDS PROGRAM ARGUMENT…` becomes another program under the same limits. It imports nothing of ours, so it
starts in 40 ms.
"""

import ctypes
import os
import platform
import struct
import sys

_ARCHES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of the table below; the kernel's name of the architecture
_REFUSED = """
    socket 41 198|connect 42 203|accept 43 202|sendto 44 206|sendmsg 46 211|recvfrom 45 207|recvmsg 47 212|bind 49 200|listen 50 201
    socketpair 53 199|accept4 288 242|recvmmsg 299 243|sendmmsg 307 269
    fork 57|vfork 58|execveat 322 281|clone 56 220
    kill 62 129|tkill 200 130|rt_sigqueueinfo 129 138|rt_tgsigqueueinfo 297 240|pidfd_send_signal 424 424|pidfd_open 434 434
    ptrace 101 117|process_vm_readv 310 270|process_vm_writev 311 271|kcmp 312 272|pidfd_getfd 438 438|process_madvise 440 440
    creat 85|truncate 76 45|ftruncate 77 46|fallocate 285 47|rename 82|renameat 264 38|renameat2 316 276|mkdir 83|mkdirat 258 34|rmdir 84
    link 86|linkat 265 37|unlink 87|unlinkat 263 35|symlink 88|symlinkat 266 36|mknod 133|mknodat 259 33
    chmod 90|fchmod 91 52|fchmodat 268 53|fchmodat2 452 452|chown 92|fchown 93 55|lchown 94|fchownat 260 54
    utime 132|utimes 235|futimesat 261|utimensat 280 88
    setxattr 188 5|lsetxattr 189 6|fsetxattr 190 7|removexattr 197 14|lremovexattr 198 15|fremovexattr 199 16
    mount 165 40|umount2 166 39|pivot_root 155 41|chroot 161 51|unshare 272 97|setns 308 268|open_tree 428 428|move_mount 429 429
    fsopen 430 430|fsconfig 431 431|fsmount 432 432|fspick 433 433|mount_setattr 442 442|open_by_handle_at 304 265
    io_uring_setup 425 425|io_uring_enter 426 426|io_uring_register 427 427|bpf 321 280|perf_event_open 298 241|userfaultfd 323 282
    keyctl 250 219|add_key 248 217|request_key 249 218|init_module 175 105|finit_module 313 273|delete_module 176 106
    kexec_load 246 104|kexec_file_load 320 294|reboot 169 142|swapon 167 224|swapoff 168 225|acct 163 89|quotactl 179 60|syslog 103 116
    settimeofday 164 170|clock_settime 227 112|adjtimex 159 171|clock_adjtime 305 266|sethostname 170 161|setdomainname 171 162
    shmget 29 194|shmat 30 196|msgget 68 186|msgsnd 69 189|semget 64 190|semop 65 193|mq_open 240 180|mq_unlink 241 181
    fanotify_init 300 262|fanotify_mark 301 263|iopl 172|ioperm 173
"""
_START = "execve 59 221"
_ABSENT = "clone3 435 435|openat2 437 437"  # what they would do stands in memory, where the filter cannot see it; libraries then use others
_NEWEST = 462
_X32 = 0x40000000
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_EPERM, _ENOSYS = 1, 38

_LOAD, _EQUAL, _ABOVE, _AND_ANY, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # offsets in what the filter looks at; arguments have eight bytes, the lower four come first

_LANDLOCK = 444, 446  # to make a set of rules, and to live by it; the numbers are the same everywhere
_EXECUTES, _MODIFIES = 1 << 0, 1 << 1 | sum(1 << n for n in range(4, 13))  # write, remove, make
_TRUNCATES, _KNOWS_TRUNCATE = 1 << 14, 3


def enforce(start: int = 0) -> bool:
    """Let the kernel refuse this process, for good, what parsing does not need. Whether it does: on Linux, x86_64 or ARM.

    `start` is the address in memory of a path: the only one that may be executed. The program there has another memory, and starts none.
    """
    if sys.platform != "linux" or platform.machine() not in _ARCHES or sys.maxsize < 2**32:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    column, arch = _ARCHES[platform.machine()]
    if libc.prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS
        return False
    _landlock(libc, _MODIFIES if start else _MODIFIES | _EXECUTES)
    program = _filter(column, arch, start)
    code = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
    seccomp, all_threads = (317, 277)[column], 1
    return bool(libc.syscall(seccomp, 1, all_threads, header) == 0 or libc.prctl(22, 2, header, 0, 0) == 0)  # PR_SET_SECCOMP


def _landlock(libc: ctypes.CDLL, modifies: int) -> None:
    """Forbid to write, make, remove or run any file, where the kernel has Landlock: a set of rules without one that allows something."""
    make, restrict = _LANDLOCK
    version = libc.syscall(make, None, 0, 1)
    if version > 0:
        handled = modifies | (_TRUNCATES if version >= _KNOWS_TRUNCATE else 0)
        rules = libc.syscall(make, ctypes.create_string_buffer(struct.pack("=Q", handled), 8), 8, 0)
        if rules >= 0:
            libc.syscall(restrict, rules, 0)
            os.close(rules)


def _filter(column: int, arch: int, start: int) -> bytes:
    """The filter's instructions, eight bytes each."""
    refuse, absent, allow = (_op(_RETURN, value) for value in (_FAIL | _EPERM, _FAIL | _ENOSYS, _ALLOW))
    lines = [_op(_LOAD, _ARCH), _op(_EQUAL, arch, 1, 0), _op(_RETURN, _KILL), _op(_LOAD, _NUMBER)]
    lines += [_op(_ABOVE, _X32 - 1, 0, 1), absent, _op(_ABOVE, _NEWEST, 0, 1), absent]
    lines += [line for number in _numbers(_ABSENT, column) for line in (_op(_EQUAL, number, 0, 1), absent)]
    lines += [line for number in _numbers(_REFUSED, column) for line in (_op(_EQUAL, number, 0, 1), refuse)]
    low, high = start & 0xFFFFFFFF, start >> 32
    for number in _numbers(_START, column):
        lines += [_op(_EQUAL, number, 0, 6 if start else 1)]
        if start:
            lines += [_op(_LOAD, _FIRST_ARGUMENT), _op(_EQUAL, low, 0, 3), _op(_LOAD, _FIRST_ARGUMENT + 4), _op(_EQUAL, high, 0, 1), allow]
        lines += [refuse]
    opening = {"open 2": 1, "openat 257 56": 2}
    for call, argument in opening.items():
        for number in _numbers(call, column):
            lines += [_op(_EQUAL, number, 0, 4), _op(_LOAD, _FIRST_ARGUMENT + 8 * argument), _op(_AND_ANY, _WRITES, 0, 1), refuse, allow]
    own = {"tgkill 234 131": os.getpid(), "prlimit64 302 261": 0}  # of this process only, as abort() and setrlimit() have it
    for call, first in own.items():
        for number in _numbers(call, column):
            lines += [_op(_EQUAL, number, 0, 4), _op(_LOAD, _FIRST_ARGUMENT), _op(_EQUAL, first, 1, 0), refuse, allow]
    for number in _numbers("ioctl 16 29", column):  # TIOCSTI and TIOCLINUX type into a terminal
        lines += [_op(_EQUAL, number, 0, 5), _op(_LOAD, _FIRST_ARGUMENT + 8), _op(_EQUAL, 0x5412, 1, 0), _op(_EQUAL, 0x541C, 0, 1), refuse]
        lines += [allow]
    return b"".join([*lines, allow])


def _op(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """An instruction; `then` and `otherwise`: how many of the next ones to pass over where a comparison holds, and where it does not."""
    return struct.pack("=HBBI", code, then, otherwise, value)


def _numbers(calls: str, column: int) -> list[int]:
    """The numbers of the calls of a table in one of its columns; not every architecture has every call."""
    rows = (call.split() for line in calls.strip().splitlines() for call in line.split("|"))
    return [int(row[1 + column]) for row in rows if len(row) > 1 + column]


def become(program: str, arguments: list[str], memory: int, seconds: int) -> None:
    """Go on as another program: no more memory (bytes) and computing time than this, one thread, and what `enforce` leaves."""
    import resource

    limits = ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds))
    nothing = ((what, 0) for what in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC))
    for what, value in (*limits, *nothing):
        try:
            resource.setrlimit(what, (value, resource.getrlimit(what)[1]))
        except (ValueError, OSError):  # not every system knows every limit
            continue
    path = ctypes.create_string_buffer(os.fsencode(program))
    given = [os.fsencode(a) for a in (program, *arguments)]
    values = [os.fsencode(f"{name}={value}") for name, value in os.environ.items()]
    libc = ctypes.CDLL(None, use_errno=True)
    argv, envp = (ctypes.c_char_p * (len(given) + 1))(*given, None), (ctypes.c_char_p * (len(values) + 1))(*values, None)
    enforce(ctypes.addressof(path))
    libc.execve(path, argv, envp)
    sys.exit(f"{program} cannot be started: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    become(sys.argv[3], sys.argv[4:], int(sys.argv[1]), int(sys.argv[2]))
