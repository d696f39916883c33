"""RC-138, RC-139: what the daemon says of itself is true."""

import json
import os
import re
import signal
import time

import lk

LINE = re.compile(r'^[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*"(,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*")*\})? '
                  r'(-?\d+(\.\d+)?([eE][-+]?\d+)?|[+-]Inf|NaN)$')


def parse_metrics(text):
    """{name with labels: value} and a list of what is no exposition format."""
    values, wrong, types = {}, [], {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            if name in types:
                wrong.append(f"{name} twice")
            types[name] = kind
        elif not LINE.match(line):
            wrong.append(line)
        else:
            name, value = line.rsplit(" ", 1)
            if name in values:
                wrong.append(f"{name} twice")
            values[name] = float(value)
            base = re.sub(r"\{.*", "", name)
            if not any(t in types for t in (base, re.sub(r"_(bucket|sum|count)$", "", base))):
                wrong.append(f"{name} without a type")
            if types.get(base) == "counter" and (not base.endswith("_total") or float(value) < 0):
                wrong.append(f"{name}: no counter")
    return values, wrong + ([] if text.endswith("\n") else ["no newline at the end"])


def metrics(box):
    box.dataset("odd", ["a", "bb", "ccc"] * 30)
    stream = box.plain({"odd": {"path": "odd", "epochs": 2}}, sequence=3, batch=5)
    daemon = box.serve(stream, streams={"s": stream, "t": stream})
    before, _ = parse_metrics(daemon.fetch("/metrics")[1])
    trainer = box.trainer(daemon, stream="s")
    trainer.get("next 10")
    status, text = daemon.fetch("/metrics")
    values, wrong = parse_metrics(text)
    lk.check(status == 200 and not wrong and len(values) > 40, "/metrics is what Prometheus reads", wrong[:5])
    lk.check(values['lanekeeper_get_batch_seconds_count'] >= 10 and before['lanekeeper_get_batch_seconds_count'] == 0,
             "batches are counted", values['lanekeeper_get_batch_seconds_count'])
    buckets = [v for k, v in values.items() if "seconds_bucket" in k]
    lk.check(buckets == sorted(buckets) and buckets[-1] == values['lanekeeper_get_batch_seconds_count'],
             "the histogram's buckets add up", buckets)
    limits = [float(re.search(r'le="(.*?)"', k).group(1).replace("+Inf", "inf")) for k in values if "seconds_bucket" in k]
    lk.check(limits == sorted(limits) and limits[-2] > 60, "and reach beyond a client's time-out of 60 s", limits)
    lk.check(values['lanekeeper_token_identity{stream="s"}'] == 1 and values['lanekeeper_healthy'] == 1, "identity and health are 1")
    lk.to_the_end(trainer)
    values, _ = parse_metrics(daemon.fetch("/metrics")[1])
    lk.check(values['lanekeeper_tokens_in_total{stream="s"}'] == 360 == values['lanekeeper_tokens_out_total{stream="s"}']
             + values['lanekeeper_tokens_lost_total{stream="s"}'], "at the end: 360 tokens in = out + lost",
             {k: v for k, v in values.items() if "tokens" in k})
    lk.check(values['lanekeeper_rows_drawn_total{stream="s"}'] == 180, "180 rows drawn", values)
    lk.check(daemon.fetch("/healthz") == (200, "ok, idle\n") and daemon.fetch("/readyz")[0] == 200, "/healthz and /readyz say ok")
    lk.check(daemon.fetch("/nothing")[0] == 404, "anything else is 404")
    lk.check(json.loads(daemon.fetch("/api/status?x=1")[1])["healthy"] is True, "/api/status is JSON")
    by_rpc = trainer.get("status")[0]
    lk.check(by_rpc["pid"] == daemon.pid and [s["name"] for s in by_rpc["streams"]] == ["s", "t"], "and the same by Status", by_rpc.keys())
    told = box.tool("status", "--connect", daemon.address, "--stream", "s", "--json")
    lk.check(json.loads(told.stdout)["pid"] == daemon.pid, "and by lanekeeper status")


def special_tokens(box):
    """RC-059: what the text of a special token becomes is the recipe's choice; it is counted either way."""
    text = "a<|endoftext|>b"
    box.dataset("d", ["ab", text, "c", ""])
    for special, ids in (("split", [97, 256, 98]), ("text", list(text.encode()))):
        stream = box.plain({"d": {"path": "d", "epochs": 1}}, tokenizer={"bytes": True, "append": "eos", "special_in_text": special})
        daemon = box.serve(stream, special)
        trainer = box.trainer(daemon)
        trainer.get("show tokens")
        batches, _ = lk.to_the_end(trainer)
        lk.same([b["tokens"][0][0] for b in batches], [97, 98, 256, *ids, 256, 99, 256, 256], f"special_in_text: {special}")
        workers = daemon.status()["workers"]
        values, _ = parse_metrics(daemon.fetch("/metrics")[1])
        lk.check(workers["special_tokens_in_text"] == 1 == values["lanekeeper_special_tokens_in_text_total"],
                 "one special token in the text is counted; those that the recipe appends are not", workers)


def stalled(box):
    """RC-139: workers that stand still: unhealthy with the reason when somebody waits, healthy when nobody does."""
    stream = box.mixed(100)
    daemon = box.serve(stream, workers=2)
    reference = box.trainer(daemon).get("digest 0 30")
    daemon.stop()
    daemon = box.serve(stream, index=False, workers=2, stall_timeout="1s")
    lk.wait_until(lambda: len(daemon.workers()) == 2 and daemon.log().count("worker_ready") == 2, lk.ANSWER_S, "two workers")
    workers = daemon.workers()
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    trainer = box.trainer(daemon, timeout=60000)
    trainer.connect()
    time.sleep(1.5)    # longer than the stall time-out, and nobody asks anything meanwhile
    trainer.send("next 30")
    seen = []

    def unhealthy():
        """By the daemon's own clock: this machine may have other things to do than to ask it."""
        values, _ = parse_metrics(daemon.fetch("/metrics")[1])
        seen.append((values["lanekeeper_oldest_request_seconds"], values["lanekeeper_healthy"]))
        return not seen[-1][1]
    lk.wait_until(unhealthy, lk.ANSWER_S, "a daemon that is not healthy")
    wrong = [(age, healthy) for age, healthy in seen if healthy != (age < 1) and (not healthy or age > 1.5)]
    lk.same(wrong, [], f"healthy until the stall time-out of 1 s is over, however long it was idle before, and not after ({len(seen)} looks)")
    code, text = daemon.fetch("/healthz")
    lk.same(code, 503, "/healthz says so")
    lk.check("step 0" in text and re.search("measur|worker|row", text) is not None, "with what it waits for", text)
    values, _ = parse_metrics(daemon.fetch("/metrics")[1])
    lk.check(values["lanekeeper_healthy"] == 0 and values["lanekeeper_oldest_request_seconds"] >= 1 and values["lanekeeper_requests_waiting"] >= 1,
             "the metrics say so, too", {k: v for k, v in values.items() if "oldest" in k or "healthy" in k})
    status = daemon.status()
    lk.check(not status["healthy"] and status["waiting"] and status["waiting"][0]["method"] == "GetBatch" and status["waiting"][0]["for"],
             "the status names the request and what it waits for", status["waiting"])
    late = box.trainer(daemon, timeout=1500)
    failure = late.do("next")[1]
    lk.check(failure.startswith("DEADLINE_EXCEEDED") and "step 0" in failure, "a client's time-out says what was waited for", failure)
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    batches, failure = trainer.answer()
    lk.same([b["digest"] for b in batches], [d["digest"] for d in reference], "woken, they do what was asked, unchanged")
    lk.check(daemon.fetch("/healthz")[0] == 200, "and the daemon is healthy again")
    trainer.close()    # what it had asked for ahead of time was asked for
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(1.5)
    lk.check(daemon.fetch("/healthz") == (200, "ok, idle\n"), "stopped workers and nobody waiting: healthy", daemon.fetch("/healthz"))
    for pid in workers:    # or its end would wait for theirs
        os.kill(pid, signal.SIGCONT)


def one_stopped(box):
    """One stopped worker of two: its tasks are given to the other after a while."""
    stream = box.mixed(100)
    daemon = box.serve(stream, workers=2)
    lk.wait_until(lambda: daemon.log().count("worker_ready") == 2, 10, "two workers")
    trainer = box.trainer(daemon, timeout=80000)
    trainer.get("next 2")
    stopped = daemon.workers()[0]
    os.kill(stopped, signal.SIGSTOP)
    begin = time.monotonic()
    _, failure = trainer.do("next 200", 90)
    took = time.monotonic() - begin
    lk.check(not failure and took < 60, "with one worker stopped the stream goes on", f"{failure} after {took:.1f} s")
    os.kill(stopped, signal.SIGCONT) if stopped in daemon.workers() else None


if __name__ == "__main__":
    lk.main([metrics, special_tokens, stalled] + ([one_stopped] if lk.LONG else []))
