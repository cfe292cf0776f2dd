"""The commands waiting for the GPU thread."""

import queue
from collections import deque

from ..commands import AnyCommand


class CommandQueue:
    """Filled by the thread that reads commands, emptied by the GPU thread. Unbounded: `put` never blocks."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[AnyCommand] = queue.SimpleQueue()
        self._seen: deque[AnyCommand] = deque()
        """Looked at already, and still waiting; for the GPU thread alone."""

    def put(self, command: AnyCommand) -> None:
        """Add a command at the end."""
        self._queue.put(command)

    def get(self) -> AnyCommand:
        """The next command; waits for it."""
        return self._seen.popleft() if self._seen else self._queue.get()

    def get_nowait(self) -> AnyCommand | None:
        """The next command, or null where none waits: for a look between two decode steps."""
        if self._seen:
            return self._seen.popleft()
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            return None

    def empty(self) -> bool:
        """Whether no command waits."""
        return not self._seen and self._queue.empty()

    def holds(self, *kinds: type[AnyCommand]) -> bool:
        """Whether a command of these kinds waits, wherever in the queue; it goes on waiting."""
        self._look()
        return any(isinstance(command, kinds) for command in self._seen)

    def discard(self, kind: type[AnyCommand]) -> None:
        """Take every waiting command of this kind away."""
        self._look()
        self._seen = deque(command for command in self._seen if not isinstance(command, kind))

    def _look(self) -> None:
        while True:
            try:
                self._seen.append(self._queue.get_nowait())
            except queue.Empty:
                return
