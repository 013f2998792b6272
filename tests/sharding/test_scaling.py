"""The model of time on many processes, against simulations of its algorithms round by round."""

import math

import pytest

from xpr.sharding.communication import Communication, Transfer
from xpr.sharding.scaling import Network, communication_seconds, transfer_seconds

SLOW = Network(latency=1e-3, bandwidth=1e12, reduction=1e12)
"""Latency is all that counts."""
THIN = Network(latency=1e-12, bandwidth=1e6, reduction=1e9)
"""Bytes are all that counts."""
EVEN = Network(latency=2e-6, bandwidth=1e10, reduction=4e9, overhead=5e-6)


def received(kind: str, n: int, operand: float) -> float:
    """Bytes that each device receives on a ring, as `communication()` counts them."""
    return {
        "all_reduce": 2 * (n - 1) / n * operand,
        "all_gather": (n - 1) * operand,
        "reduce_scatter": (n - 1) / n * operand,
        "all_to_all": (n - 1) / n * operand,
        "permute": operand,
    }[kind]


def transfer(kind: str, n: int, operand: float, times: int = 1) -> Transfer:
    return Transfer(kind, n, received(kind, n, operand), times, False, "test", tuple(range(n)))


def halving(n: int, size: float, net: Network, reduces: bool) -> float:
    """Rounds in which what is exchanged halves, from `size` / 2 on."""
    seconds, part = 0.0, size
    while n > 1:
        part /= 2
        seconds += net.start + part / net.bandwidth + (part / net.reduction if reduces else 0)
        n //= 2
    return seconds


def simulated(kind: str, n: int, size: float, net: Network) -> float:
    """One collective of a power of two of processes, round by round."""
    doubling = 0.0
    for _ in range(int(math.log2(n))):
        doubling += net.start + size / net.bandwidth + size / net.reduction
    if kind == "all_reduce":
        scatter = halving(n, size, net, True)
        return min(doubling, scatter + halving(n, size, net, False))
    if kind == "reduce_scatter":
        return halving(n, size, net, True)
    if kind == "all_gather":
        seconds, have = 0.0, size
        while have < n * size:
            seconds += net.start + have / net.bandwidth
            have *= 2
        return seconds
    if kind == "all_to_all":
        bruck = sum(net.start + size / 2 / net.bandwidth for _ in range(int(math.log2(n))))
        pairs = sum(net.start + size / n / net.bandwidth for _ in range(n - 1))
        return min(bruck, pairs)
    return net.start + size / net.bandwidth


@pytest.mark.parametrize("net", [SLOW, THIN, EVEN], ids=["slow", "thin", "even"])
@pytest.mark.parametrize(
    "kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"]
)
def test_a_collective_takes_what_its_algorithm_takes(kind: str, net: Network) -> None:
    for n in (2, 4, 64, 4096):
        for size in (8.0, 1e4, 64e6):
            found = transfer_seconds(transfer(kind, n, size), net, way="tree")
            assert found == pytest.approx(simulated(kind, n, size, net), rel=1e-9), (n, size)


def sent_directly(kind: str, n: int, size: float, net: Network) -> float:
    """One collective in which a process sends to each other one, message by message."""

    def everybody(size: float) -> float:
        seconds = net.latency
        for _ in range(n - 1):
            seconds += net.overhead + size / net.bandwidth
        return seconds

    def combine(size: float) -> float:
        return sum(size / net.reduction for _ in range(n - 1))

    one = size / n if kind in ("all_to_all", "reduce_scatter") else size
    small = one <= 2048
    if kind == "all_reduce":
        if small:
            return everybody(size) + combine(size)
        return everybody(0) + everybody(size / n) + combine(size / n) + everybody(size / n)
    if kind == "permute":
        alone = net.overhead + net.latency + size / net.bandwidth
        return everybody(0) + (size / net.bandwidth if small else alone)
    extra = combine(one) if kind == "reduce_scatter" else 0
    return (everybody(one) if small else everybody(0) + everybody(one)) + extra


@pytest.mark.parametrize("net", [SLOW, THIN, EVEN], ids=["slow", "thin", "even"])
@pytest.mark.parametrize(
    "kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"]
)
def test_a_direct_collective_takes_its_messages(kind: str, net: Network) -> None:
    for n in (2, 3, 8):
        for size in (8.0, 1e4, 64e6):
            found = transfer_seconds(transfer(kind, n, size), net)
            assert found == pytest.approx(sent_directly(kind, n, size, net), rel=1e-9), (n, size)


def sent_in_rounds(kind: str, n: int, size: float, net: Network) -> float:
    """One collective of many processes: what a process sends in each round, message by message."""

    def messages(size: float) -> float:
        seconds, left = net.latency, size
        while True:
            seconds += net.overhead + min(left, 2048) / net.bandwidth
            left -= 2048
            if left <= 0:
                return seconds

    def gathered(block: float) -> float:
        seconds, have = 0.0, 1
        while have < n:
            new = min(have, n - have)
            seconds += messages(new * block)
            have += new
        return seconds

    def exchanged(block: float) -> float:
        # Those blocks move in a round whose way to go has its bit.
        seconds, bit = 0.0, 1
        while bit < n:
            seconds += messages(sum(block for way in range(n) if way & bit))
            bit *= 2
        return seconds

    def everybody(size: float) -> float:
        return net.latency + sum(net.overhead + size / net.bandwidth for _ in range(n - 1))

    def combine(size: float) -> float:
        return sum(size / net.reduction for _ in range(n - 1))

    if kind == "all_reduce":
        if size > 2048:
            return gathered(4) + 2 * everybody(size / n) + combine(size / n)
        seconds, groups = 0.0, n
        one = net.overhead + net.latency + size / net.bandwidth
        if n & (n - 1):  # the first ones in pairs, and the result back
            seconds += 2 * one + size / net.reduction
            groups = 2 ** int(math.log2(n))
        while groups > 1:
            seconds += one + size / net.reduction
            groups //= 2
        return seconds
    if kind == "permute":
        return gathered(4) + net.overhead + net.latency + size / net.bandwidth
    one = size if kind == "all_gather" else size / n
    extra = combine(one) if kind == "reduce_scatter" else 0
    if one * ((n + 1) // 2) <= 32768:
        return (gathered if kind == "all_gather" else exchanged)(one) + extra
    return gathered(4) + everybody(one) + extra


@pytest.mark.parametrize("net", [SLOW, THIN, EVEN], ids=["slow", "thin", "even"])
@pytest.mark.parametrize(
    "kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"]
)
def test_many_processes_take_rounds(kind: str, net: Network) -> None:
    for n in (9, 16, 100, 4096):
        for size in (8.0, 1e4, 64e6):
            found = transfer_seconds(transfer(kind, n, size), net)
            assert found == pytest.approx(sent_in_rounds(kind, n, size, net), rel=1e-6), (n, size)


def test_small_sums_of_many_processes_take_few_messages() -> None:
    found = transfer_seconds(transfer("all_reduce", 4096, 8), EVEN)
    assert found < 13 * EVEN.message(8)


def test_processes_that_are_no_power_of_two_need_another_round() -> None:
    four, five = (transfer_seconds(transfer("all_reduce", n, 8), SLOW, way="tree") for n in (4, 5))
    assert five == pytest.approx(four * 3 / 2)


def test_devices_of_one_process_meet_in_its_memory() -> None:
    inside = transfer_seconds(
        transfer("all_reduce", 4, 1e6), THIN, devices_per_process=4, way="tree"
    )
    assert inside == pytest.approx(4e6 / THIN.reduction)
    across = transfer_seconds(
        transfer("all_reduce", 8, 1e6), THIN, devices_per_process=4, way="tree"
    )
    assert across == pytest.approx(
        4e6 / THIN.reduction + simulated("all_reduce", 2, 1e6, THIN), rel=1e-9
    )
    gathered = transfer_seconds(
        transfer("all_gather", 8, 1e6), THIN, devices_per_process=4, way="tree"
    )
    assert gathered == pytest.approx(
        4e6 / THIN.reduction + simulated("all_gather", 2, 4e6, THIN), rel=1e-9
    )


def test_a_group_across_processes_has_few_devices_in_each() -> None:
    apart = Transfer("all_reduce", 4, received("all_reduce", 4, 1e6), 1, False, "", (0, 2, 4, 6))
    assert transfer_seconds(apart, THIN, devices_per_process=4, way="tree") == pytest.approx(
        2e6 / THIN.reduction + simulated("all_reduce", 2, 1e6, THIN), rel=1e-9
    )


def test_what_nobody_sends_takes_no_time() -> None:
    assert transfer_seconds(transfer("all_reduce", 1, 1e6), THIN) == 0
    assert communication_seconds(Communication(()), THIN) == 0


def test_a_collective_in_a_loop_counts_as_often_as_it_happens() -> None:
    once, thrice = transfer("permute", 2, 1e6), transfer("permute", 2, 1e6, times=3)
    assert communication_seconds(Communication((once, thrice)), EVEN, way="tree") == pytest.approx(
        4 * simulated("permute", 2, 1e6, EVEN)
    )


@pytest.mark.parametrize("name", ["latency", "bandwidth", "reduction", "overhead"])
@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_a_network_has_possible_figures(name: str, value: float) -> None:
    figures = {"latency": 1e-6, "bandwidth": 1e9, "reduction": 1e9, name: value}
    with pytest.raises(ValueError, match=f"a network's {name} must be positive and finite"):
        Network(**figures)


def test_no_latency_is_possible_and_no_bandwidth_is_not() -> None:
    assert Network(0.0, 1.0, 1.0).message(3.0) == 3.0
    with pytest.raises(ValueError, match="bandwidth must be positive"):
        Network(0.0, 0.0, 1.0)
