"""Starts the roles of a minigluon job and ends them together; standard library only.

options   the command line -> Options
roles     Options -> the processes to start: command and environment of each role
keeper    one process between the launcher and each role: nothing of the role outlives it
lines     the bytes of a role -> lines and progress bars
console   lines and bars of all roles -> one readable output
verdict   who failed first, which exit code, and the words about it
job       the event loop that ties them together
main      the door: main(argv) -> exit code
status    the live table of a job (minigluon-status)
"""
