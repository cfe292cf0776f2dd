import os
import sys
from pathlib import Path

# Advice names the command as the shell finds it: here it is `cgtop`, whether or not the environment is active.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
