"""What all tests share."""

import os

from hypothesis import HealthCheck, settings

# Models of a few thousand parameters gain nothing from a second thread, which waits for the first on busy cores; set
# before torch is imported, and for the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# readline sets them in processes that pytest runs side by side. They would overrule the size of a terminal of a test.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

# The programs that tests start keep their byte code, as they do for users: they start in half the time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The same examples in every run, and no limit on the time of one: a slow or busy machine fails nothing.
# `--hypothesis-profile=default` looks for others.
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")
