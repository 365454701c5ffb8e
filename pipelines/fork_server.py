"""First import of the fork server that `pipelines.code_server` starts; nothing else imports it.

A SIGTERM to the process group is for the runs, which are forks of this process. The fork server
outlives them to report how they ended, and ends by itself when the code server and all runs have.
"""

import os
import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
