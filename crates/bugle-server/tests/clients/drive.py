"""Drives a server with the published Python client of Queen MQ, as its users do.

Usage: drive.py URL

Every part fails with an assertion that says what was seen. Runs with queen-mq 0.15.0 and, without the parts that are named
so, with 2.6.0.
"""

import asyncio
import sys
import uuid
from importlib.metadata import version

from queen import Queen

URL = sys.argv[1]
CLIENT = version("queen-mq")
# What the client of the next major version does no longer, or not in this way.
IS_OLD = CLIENT.startswith("0.")
# A wait that ends a broken run. Nothing depends on being faster.
AT_MOST = 60


def name(part):
    return f"{part}-{uuid.uuid4().hex[:8]}"


def data(messages):
    return [message["data"] for message in messages]


async def push_pop_ack(queen):
    queue = name("plain")
    created = await queen.queue(queue).create()
    assert created["configured"] is True, created
    pushed = await queen.queue(queue).push([{"data": {"n": n}} for n in range(3)])
    assert [p["status"] for p in pushed] == ["queued"] * 3, pushed
    messages = await queen.queue(queue).batch(10).wait(False).pop()
    assert data(messages) == [{"n": 0}, {"n": 1}, {"n": 2}], messages
    assert await queen.queue(queue).batch(10).wait(False).pop() == [], "the partition is leased"
    acked = await queen.ack(messages, True)
    assert acked["success"], acked
    assert await queen.queue(queue).batch(10).wait(False).pop() == [], "all of them are done"


async def duplicates(queen):
    queue = name("same")
    first = await queen.queue(queue).push([{"transactionId": "order-1", "data": 1}])
    again = await queen.queue(queue).push([{"transactionId": "order-1", "data": 2}])
    assert (first[0]["status"], again[0]["status"]) == ("queued", "duplicate"), (first, again)
    assert data(await queen.queue(queue).wait(False).pop()) == [1]


async def long_poll(queen):
    """A pop that waits gets what is pushed afterwards, on a queue that was not there."""
    queue = name("waits")
    waiting = asyncio.ensure_future(queen.queue(queue).timeout_millis(AT_MOST * 1000).wait(True).pop())
    await asyncio.sleep(0.5)
    assert not waiting.done(), "it does not wait"
    await queen.queue(queue).push([{"data": "late"}])
    assert data(await asyncio.wait_for(waiting, AT_MOST)) == ["late"]


async def consume(queen):
    queue = name("consumed")
    await queen.queue(queue).push([{"data": n} for n in range(20)])
    seen = []

    async def handle(message):
        seen.append(message["data"])

    await asyncio.wait_for(queen.queue(queue).batch(5).limit(20).each().consume(handle), AT_MOST)
    assert seen == list(range(20)), seen
    assert await queen.queue(queue).wait(False).pop() == [], "consume acks"


async def groups(queen):
    queue = name("groups")
    await queen.queue(queue).push([{"data": n} for n in range(4)])
    for group in ["mailer", "ledger"]:
        messages = await queen.queue(queue).group(group).batch(10).wait(False).pop()
        assert data(messages) == [0, 1, 2, 3], (group, messages)
        await queen.ack(messages, True, {"group": group})
        assert await queen.queue(queue).group(group).batch(10).wait(False).pop() == [], group


async def subscription_modes(queen):
    queue = name("modes")
    await queen.queue(queue).push([{"data": "before"}])
    new = queen.queue(queue).group("new").subscription_mode("new")
    assert await new.batch(10).wait(False).pop() == [], "it begins with what comes"
    await queen.queue(queue).push([{"data": "after"}])
    assert data(await queen.queue(queue).group("new").batch(10).wait(False).pop()) == ["after"]
    every = queen.queue(queue).group("all").subscription_mode("all")
    assert data(await every.batch(10).wait(False).pop()) == ["before", "after"]


async def partitions(queen):
    queue = name("lanes")
    for lane in ["a", "b"]:
        await queen.queue(queue).partition(lane).push([{"data": f"{lane}{n}"} for n in range(2)])
    assert data(await queen.queue(queue).partition("b").batch(10).wait(False).pop()) == ["b0", "b1"]
    assert data(await queen.queue(queue).batch(10).wait(False).pop()) == ["a0", "a1"], "b is leased"


async def transaction(queen):
    source, target = name("source"), name("target")
    await queen.queue(source).push([{"data": 1}])
    [message] = await queen.queue(source).wait(False).pop()
    done = await queen.transaction().ack(message).queue(target).push([{"data": 2}]).commit()
    assert done["success"], done
    assert data(await queen.queue(target).wait(False).pop()) == [2]
    assert await queen.queue(source).wait(False).pop() == [], "it was acked"


async def a_refused_transaction(queen):
    source, target = name("source"), name("target")
    await queen.queue(source).push([{"data": 1}])
    [message] = await queen.queue(source).wait(False).pop()
    wrong = dict(message, transactionId="nobody")
    try:
        await queen.transaction().ack(wrong).queue(target).push([{"data": 2}]).commit()
    except Exception as refused:  # the client raises what it likes
        assert "Message not found" in str(refused), refused
    else:
        raise AssertionError("it was not refused")
    assert await queen.queue(target).wait(False).pop() == [], "nothing of it was done"


async def dead_letters(queen):
    queue = name("poison")
    await queen.queue(queue).config({"retryLimit": 1}).create()
    await queen.queue(queue).push([{"transactionId": "bad", "data": "poison"}])
    for attempt in range(2):
        messages = await queen.queue(queue).wait(False).pop()
        assert data(messages) == ["poison"], (attempt, messages)
        await queen.ack(messages[0], False, {"error": f"attempt {attempt}"})
    assert await queen.queue(queue).wait(False).pop() == [], "its retries are used up"
    dead = await queen.queue(queue).dlq().get()
    [letter] = dead["messages"]
    assert letter["data"] == "poison" and "attempt 1" in letter["errorMessage"], dead


async def lease_renewal(queen):
    queue = name("renewed")
    await queen.queue(queue).push([{"data": 1}])
    [message] = await queen.queue(queue).wait(False).pop()
    renewed = await queen.renew(message)
    assert renewed["success"], renewed


PARTS = [
    push_pop_ack,
    duplicates,
    long_poll,
    consume,
    groups,
    subscription_modes,
    partitions,
    transaction,
    a_refused_transaction,
    dead_letters,
    lease_renewal,
]
NEW_PARTS = [push_pop_ack, duplicates, long_poll, transaction, a_refused_transaction]


async def main():
    queen = Queen(URL)
    for part in PARTS if IS_OLD else NEW_PARTS:
        await asyncio.wait_for(part(queen), AT_MOST)
        print(f"queen-mq {CLIENT}: {part.__name__} ok", flush=True)
    await queen.close()


asyncio.run(main())
