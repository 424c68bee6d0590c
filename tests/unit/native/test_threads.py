"""A thread with a share of the threads takes no more, and no other thread is touched by that."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

from dikkat.native.threads import num_threads, share_threads


def test_a_thread_takes_pytorch_s_threads_unless_it_was_given_a_share() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert num_threads() == 3
        with ThreadPoolExecutor(1, initializer=share_threads, initargs=(2,)) as pool:
            assert pool.submit(num_threads).result() == 2
        assert num_threads() == 3
    finally:
        torch.set_num_threads(before)
