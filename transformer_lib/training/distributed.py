"""Several processes that train one model together, as ``torchrun`` starts them.

Each process holds the whole model and takes its share of every update's batches;
DistributedDataParallel averages the gradients while they are still being computed. The
data, the loss and the final weights are those of one process that accumulates as many
batches.
"""

import contextlib
import inspect
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

__all__ = ["PartnerLost", "World", "loss_weight"]

Item = TypeVar("Item")

TIMEOUT = 600.0  # seconds
# How gloo, NCCL and the store say that somebody is gone.
GONE = re.compile(
    r"gloo|nccl|connection (closed|reset|refused)|broken pipe|timed? ?out|"
    r"process ?group|tcpstore|socket",
    re.IGNORECASE,
)


class PartnerLost(RuntimeError):  # noqa: N818  (it is not this process's error)
    """Another process of the run died or no longer answers."""


class World:
    """The processes of a run, seen from one of them.

    Without ``torchrun`` there is one process, and every method does what is left to do:
    nothing, or giving back what came.

    What one process decides and all must follow (stop, resume from here) goes through
    :meth:`same` or :meth:`any`. These use the CPU's connections even when gradients
    travel between GPUs, so that no GPU is waited for.

    Parameters
    ----------
    rank
        Number of this process, from 0; process 0 alone writes files and prints.
    size
        How many processes there are.
    local_rank
        Number of this process on its machine; it takes the GPU of that number.
    timeout
        Seconds to wait for the others, in starting and in each exchange, before they
        count as lost. A process that dies is noticed at once; this is for one that
        hangs. It must be longer than whatever process 0 does alone.

    Raises
    ------
    ValueError
        If the numbers do not fit together.

    Examples
    --------
    >>> world = World()
    >>> world.size, world.is_main, world.share(["a", "b"]), world.same(7)
    (1, True, ['a', 'b'], 7)
    >>> World(rank=1, size=2).share(["a", "b", "c", "d"])
    ['b', 'd']
    """

    def __init__(
        self,
        rank: int = 0,
        size: int = 1,
        local_rank: int = 0,
        timeout: float = TIMEOUT,
    ) -> None:
        if size < 1 or not 0 <= rank < size or not 0 <= local_rank <= rank:
            raise ValueError(
                f"rank: got rank {rank} (on its machine {local_rank}) of {size} "
                "processes, wanted 0 <= local rank <= rank < number of processes"
            )
        if not 0.0 < timeout < float("inf"):
            raise ValueError(
                f"timeout: got {timeout}, wanted a number of seconds above 0"
            )
        self.rank = rank
        self.size = size
        self.local_rank = local_rank
        self.timeout = timeout
        self._joined = False

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
    ) -> "World":
        """Read what ``torchrun`` told this process.

        Parameters
        ----------
        environment
            ``None`` is the process's own: ``WORLD_SIZE``, ``RANK``, ``LOCAL_RANK``
            (and, when joining, ``MASTER_ADDR`` and ``MASTER_PORT``).
        timeout
            As for the class.

        Returns
        -------
        world
            Not joined yet; of one process if ``WORLD_SIZE`` is missing or 1.

        Raises
        ------
        ValueError
            If a variable is missing or no whole number.

        Examples
        --------
        >>> World.from_environment({}).size
        1
        >>> World.from_environment({"WORLD_SIZE": "2", "RANK": "1"})
        Traceback (most recent call last):
        ...
        ValueError: LOCAL_RANK: got nothing, but WORLD_SIZE=2; torchrun sets them together
        """
        variables = os.environ if environment is None else environment
        if variables.get("WORLD_SIZE", "1").strip() == "1":
            return cls(timeout=timeout)
        numbers = {}
        for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
            text = variables.get(name)
            if text is None:
                raise ValueError(
                    f"{name}: got nothing, but WORLD_SIZE={variables['WORLD_SIZE']}; "
                    "torchrun sets them together"
                )
            if not text.strip().isdecimal():
                raise ValueError(f"{name}: got {text!r}, wanted a whole number")
            numbers[name] = int(text)
        return cls(
            numbers["RANK"], numbers["WORLD_SIZE"], numbers["LOCAL_RANK"], timeout
        )

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def device(self, kind: str) -> torch.device:
        """Give this process its device.

        Parameters
        ----------
        kind
            ``"cpu"``, ``"cuda"``, or another of torch's when there is one process.

        Returns
        -------
        device
            The GPU of this process's number on its machine, if it is to be a GPU.

        Raises
        ------
        ValueError
            If there are more processes than GPUs, or several on a device that cannot
            exchange gradients.

        Examples
        --------
        >>> World().device("cpu")
        device(type='cpu')
        """
        if self.size == 1 or kind == "cpu":
            return torch.device(kind)
        if kind != "cuda":
            raise ValueError(
                f"device: got {kind!r} for {self.size} processes, wanted 'cpu' or 'cuda'"
            )
        found = torch.cuda.device_count()
        if self.local_rank >= found:
            raise ValueError(
                f"device: got 'cuda' for process {self.local_rank + 1} of this machine, "
                f"which has {found} GPU(s); wanted at most one process each: lower "
                "--nproc-per-node, or take --device cpu"
            )
        return torch.device("cuda", self.local_rank)

    def join(self, device: torch.device) -> "World":
        """Connect with the other processes; use as ``with world.join(device):``.

        Parameters
        ----------
        device
            Where the gradients will be: gloo carries them on the CPU, NCCL on GPUs.

        Returns
        -------
        world
            This object. Leaving the ``with`` block disconnects, except after an error,
            when a farewell to somebody who is gone could take for ever.

        Raises
        ------
        PartnerLost
            If the others do not come in time.
        """
        if self.size == 1 or self._joined:
            return self
        if device.type == "cuda":
            torch.cuda.set_device(device)
        with self.watch("start"):
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
                rank=self.rank,
                world_size=self.size,
                timeout=timedelta(seconds=self.timeout),
            )
            self._joined = True
        return self

    def leave(self) -> None:
        """Disconnect; what comes after is done without the others."""
        if self._joined:
            self._joined = False
            dist.destroy_process_group()

    def __enter__(self) -> "World":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.leave()

    @contextlib.contextmanager
    def watch(self, what: str) -> Iterator[None]:
        """Turn torch's many ways to say that a process is gone into one.

        Parameters
        ----------
        what
            What was tried, for the message.

        Raises
        ------
        PartnerLost
            In place of a failed exchange; other errors pass as they are.
        """
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not _tells_of_a_loss(error):
                raise
            first = str(error).strip().splitlines()[0]
            raise PartnerLost(
                f"process {self.rank} of {self.size} lost another one ({what}): it "
                f"died, or did not answer for {self.timeout:g} seconds. Its own "
                f"message, if it wrote one, stands nearby. Told by torch: {first}"
            ) from error

    # ------------------------------------------------------------------- the model

    def wrap(self, module: nn.Module, unused: bool = False) -> nn.Module:
        """Let all processes start from process 0's weights and average gradients.

        Parameters
        ----------
        module
            On its device; it is called with this process's batch and gives a loss.
            Compile it before, if at all.
        unused
            Whether some parameters get no gradient (a stack without layers); looking
            for them costs time.

        Returns
        -------
        module
            Wrapped, or as it came if there is one process. The original keeps its
            parameters and their names: save that one.
        """
        if self.size == 1:
            return module
        known = inspect.signature(DistributedDataParallel).parameters
        new = "forward_sync_buffers"  # since torch 2.13
        options: dict[str, Any] = {new if new in known else "broadcast_buffers": False}
        with self.watch("sharing the first weights"):
            return DistributedDataParallel(
                module,
                find_unused_parameters=unused,
                gradient_as_bucket_view=True,
                **options,
            )

    def share(self, batches: Sequence[Item]) -> list[Item]:
        """Take this process's part of an update's batches: every ``size``-th.

        Parameters
        ----------
        batches
            As many for each process.

        Returns
        -------
        own
            ``batches[rank::size]``.

        Raises
        ------
        ValueError
            If they cannot be dealt out evenly: some would wait for others for ever.
        """
        if len(batches) % self.size:
            raise ValueError(
                f"batches: got {len(batches)}, wanted a multiple of {self.size}, the "
                "number of processes"
            )
        return list(batches[self.rank :: self.size])

    def accumulating(
        self, module: nn.Module, more: bool
    ) -> contextlib.AbstractContextManager[None]:
        """Keep gradients here while more batches of the same update follow.

        Parameters
        ----------
        module
            From :meth:`wrap`.
        more
            Whether this is not the update's last batch.

        Returns
        -------
        context
            For the forward *and* the backward pass of the batch.
        """
        if more and isinstance(module, DistributedDataParallel):
            context: contextlib.AbstractContextManager[None] = module.no_sync()
            return context
        return contextlib.nullcontext()

    # --------------------------------------------------------------- small exchanges

    def any(self, flag: bool) -> bool:
        """Whether the flag is up in at least one process.

        Parameters
        ----------
        flag
            Of this process; every process must ask, in the same order.

        Returns
        -------
        flag
            The same everywhere.

        Raises
        ------
        PartnerLost
            If one does not answer.
        """
        return self.sum([float(flag)])[0] > 0.0

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Add up numbers over all processes, in float64.

        Parameters
        ----------
        numbers
            As many in every process.

        Returns
        -------
        sums
            The same everywhere.

        Raises
        ------
        PartnerLost
            If one does not answer.
        """
        values = [float(number) for number in numbers]
        if self.size == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64)
        with self.watch("adding up numbers"):
            dist.all_reduce(total)
        return [float(value) for value in total]

    def same(self, value: Any) -> Any:
        """Give every process what process 0 has.

        Parameters
        ----------
        value
            Anything that JSON can hold; looked at in process 0 only.

        Returns
        -------
        value
            Process 0's (lists for tuples, as JSON has it, when there are several).

        Raises
        ------
        PartnerLost
            If one does not answer.
        TypeError
            If JSON cannot hold it.
        """
        if self.size == 1:
            return value
        text = json.dumps(value).encode() if self.is_main else b""
        length = torch.tensor([len(text)])
        with self.watch("hearing from process 0"):
            dist.broadcast(length, 0)
            buffer = torch.zeros(int(length), dtype=torch.uint8)
            if self.is_main:
                buffer.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
            dist.broadcast(buffer, 0)
        return json.loads(bytes(buffer.tolist()))

    def same_tensors(
        self, tensors: Mapping[str, Shaped[Tensor, "..."]] | None
    ) -> dict[str, Tensor]:
        """Give every process the tensors that process 0 has, on the CPU.

        Parameters
        ----------
        tensors
            By name; looked at in process 0 only, the others may pass ``None``.

        Returns
        -------
        tensors
            Process 0's.

        Raises
        ------
        PartnerLost
            If one does not answer.
        ValueError
            If process 0 has none to give (``None``).
        """
        if self.is_main and tensors is None:
            raise ValueError("tensors: got None in process 0, wanted a mapping")
        mine = {name: t.detach().cpu() for name, t in (tensors or {}).items()}
        if self.size == 1:
            return mine
        kinds = self.same(
            [[n, str(t.dtype).split(".")[1], list(t.shape)] for n, t in mine.items()]
        )
        found = {}
        for name, dtype, shape in kinds:
            if self.is_main:
                tensor = mine[name].contiguous()
            else:
                tensor = torch.empty(shape, dtype=getattr(torch, dtype))
            with self.watch("hearing from process 0"):
                # As bytes: gloo does not know every kind of number.
                dist.broadcast(tensor.reshape(-1).view(torch.uint8), 0)
            found[name] = tensor
        return found

    def collect(self, tensor: Shaped[Tensor, "..."]) -> list[Tensor]:
        """Gather one tensor of each process, on the CPU (say, the state of dropout).

        Parameters
        ----------
        tensor
            Of the same shape and kind everywhere.

        Returns
        -------
        tensors
            By rank, the same list everywhere.

        Raises
        ------
        PartnerLost
            If one does not answer.
        """
        mine = tensor.detach().cpu().contiguous()
        if self.size == 1:
            return [mine]
        flat = mine.reshape(-1).view(torch.uint8)
        found = [torch.empty_like(flat) for _ in range(self.size)]
        with self.watch("gathering"):
            dist.all_gather(found, flat)
        return [part.view(mine.dtype).reshape(mine.shape) for part in found]

    def wait(self) -> None:
        """Wait until every process is here.

        Raises
        ------
        PartnerLost
            If one does not come in time.
        """
        if self.size > 1:
            self.sum([0.0])

    @contextlib.contextmanager
    def first_one_first(self) -> Iterator[None]:
        """Let each machine's first process go ahead: it downloads, the others find it.

        Raises
        ------
        PartnerLost
            If the first one fails.
        """
        if self.local_rank > 0:
            self.wait()
        yield
        if self.local_rank == 0:
            self.wait()


def loss_weight(tokens: int, all_tokens: int, processes: int = 1) -> float:
    """How much one batch's mean loss counts in its update.

    The update's loss is the mean over the real tokens of all its batches, whoever holds
    them. A batch's mean therefore counts in proportion to its tokens, and once more for
    each process, since DistributedDataParallel divides by their number.

    Parameters
    ----------
    tokens
        Real target tokens of this batch.
    all_tokens
        Of all batches of the update, in all processes.
    processes
        Among which gradients are averaged.

    Returns
    -------
    weight
        0 for a batch without real tokens.

    Raises
    ------
    ValueError
        If the counts do not fit together.

    Examples
    --------
    >>> loss_weight(30, 40), loss_weight(10, 40)
    (0.75, 0.25)
    >>> loss_weight(30, 40, processes=2)
    1.5
    """
    if not 0 <= tokens <= all_tokens or all_tokens < 1 or processes < 1:
        raise ValueError(
            f"tokens: got {tokens} of {all_tokens} in {processes} processes, wanted a "
            "part of a positive whole"
        )
    return tokens / all_tokens * processes


def _tells_of_a_loss(error: RuntimeError) -> bool:
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return False
    return isinstance(error, dist.DistError) or GONE.search(str(error)) is not None
