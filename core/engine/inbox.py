"""The commands waiting for the GPU thread."""

import queue

from ..commands import AnyCommand


class CommandQueue:
    """Filled by the thread that reads commands, emptied by the GPU thread. Unbounded: `put` never blocks."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[AnyCommand] = queue.SimpleQueue()

    def put(self, command: AnyCommand) -> None:
        """Add a command at the end."""
        self._queue.put(command)

    def get(self) -> AnyCommand:
        """The next command; waits for it."""
        return self._queue.get()

    def get_nowait(self) -> AnyCommand | None:
        """The next command, or null where none waits: for a look between two decode steps."""
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            return None

    def empty(self) -> bool:
        """Whether no command waits."""
        return self._queue.empty()
