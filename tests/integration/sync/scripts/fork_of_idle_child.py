"""Child processes that send nothing, and end as a script ends: by their last line or sys.exit."""

import os
import sys

import pyjms

template = pyjms.JmsTemplate(pyjms.CachingConnectionFactory(pyjms.ConnectionFactory(sys.argv[1])))
template.convert_and_send("scripts.idle", "x")

child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        sys.exit()
    assert os.waitpid(grandchild, 0)[1] == 0, "the grandchild did not end with status 0"
    sys.exit(7)
status = os.waitpid(child, 0)[1]
assert os.waitstatus_to_exitcode(status) == 7, f"the child ended with {status}"
print("done")
