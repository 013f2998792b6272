"""Compiles in a process of their own, so that a crash of the compiler ends only a compile.

One helper process serves all processes of a user (`server.py`): it loads the compiler, listens at
a socket in a directory of the user's own (`place.py`), and has workers compile (`worker.py`), as
many as there are cores. Whoever needs it first starts it (`client.py`); it ends when it was not
needed for some time.
"""
