# SPDX-License-Identifier: BSD-2-Clause
"""Tasks that are done several at once, each on a pair of hosts that nobody else uses meanwhile."""
import queue
import threading


class Worker(threading.Thread):
    """Takes tasks out of a queue until it is empty."""

    def __init__(self, waiting, ends):
        super().__init__(daemon=True)
        self.waiting, self.ends = waiting, ends
        self.error = None

    def run(self):
        try:
            while self.error is None:
                self.waiting.get_nowait()(self.ends)
        except queue.Empty:
            pass
        except Exception as error:  # pylint: disable=broad-except
            self.error = error


def do_all(tasks, pairs):
    """Calls each task with one of the pairs; returns when all are done, or raises the first error."""
    waiting = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    workers = [Worker(waiting, ends) for ends in pairs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.error:
            raise worker.error
