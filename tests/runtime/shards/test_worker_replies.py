"""Replies of a worker: each is a whole line, however the pipe takes it."""

from __future__ import annotations

import json
import threading

from dikkat_runtime.shards.worker import Replies, Reply


class Narrow:
    """A pipe that takes a few bytes at a time, as one may whose writer was stopped (Ctrl-Z) while it was full."""

    def __init__(self) -> None:
        self.content = b""

    def write(self, content: memoryview) -> int:
        """Take the first bytes."""
        taken = bytes(content[:7])
        self.content += taken
        return len(taken)


def test_replies_of_two_threads_are_whole_lines_where_a_pipe_takes_a_part_of_what_is_written() -> None:
    pipe = Narrow()
    send = Replies(pipe.write)
    replies: list[Reply] = [{"sampled": "x" * 500}, {"beat": True}]

    def send_often(reply: Reply) -> None:
        for _ in range(50):
            send(reply)

    threads = [threading.Thread(target=send_often, args=(reply,)) for reply in replies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    came = [json.loads(line) for line in pipe.content.splitlines()]
    assert [came.count(reply) for reply in replies] == [50, 50]
