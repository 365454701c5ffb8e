"""First import of the fork server that `pipelines.code_server` starts; nothing else imports it.

A SIGTERM to the process group ends the runs, which are forks of this process. The fork server
ignores it, to report how they ended; it ends with the code server and the last run.
"""

import gc
import os
import signal

# Nothing here is garbage: a collection in a run would copy the memory that runs share, and look
# through all of it.
gc.disable()
os.register_at_fork(before=gc.freeze, after_in_child=gc.enable)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
