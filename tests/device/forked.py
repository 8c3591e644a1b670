"""Run something in a forked child."""
import os
import signal


def in_child(work):
    """What `work()` returns in a forked child, as text."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a child that hangs ends
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    text = b""
    while chunk := os.read(read, 4096):
        text += chunk
    os.close(read)
    os.waitpid(pid, 0)
    return text.decode()
