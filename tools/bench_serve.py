#!/usr/bin/env python3
"""What serving several clients together costs and gains: a bounded load on a server of this machine.

Every client is a thread that sends its streamed /v1/completions one after another, so that as many requests are under
way as there are clients. A prompt is a list of random token ids; the seed is new in every run and told, so that neither
another prompt nor an earlier run has left a beginning of it in the server's cache. Before each number of clients one
request is sent that is not counted. The first token's time runs from before the connection; ms per token is that of
the tokens after the first. Failures are counted and told; the exit code is then 1.

Any server with OpenAI's API will do, to be put beside weft serve; --vocab where its /v1/models names no vocab_size. The
environment's WEFT_API_KEY is sent, where there is one.

usage: tools/bench_serve.py [--url http://127.0.0.1:8080] [--clients 1 2 4 8] [--requests 3] [--prompt-tokens 128]
                            [--max-tokens 64] [--vocab N] [--seed N] [--json]
"""

import argparse
import collections
import http.client
import ipaddress
import json
import math
import os
import random
import statistics
import sys
import threading
import time
import urllib.parse

DEADLINE = 120  # seconds, of a whole request
MOST_CLIENTS, MOST_REQUESTS = 64, 1000


class Failure(Exception):
    """A request that failed, or a run that cannot begin."""


def server_of(url):
    """(host, port) of a URL; only this machine's own, for this is a load."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
        port = parts.port or 80
    except ValueError:
        loopback, port = False, 0
    if parts.scheme != "http" or not loopback or parts.path not in ("", "/"):
        raise Failure(f"{url} is not a server of this machine; pass one such as http://127.0.0.1:8080")
    return host, port


def headers():
    key = os.environ.get("WEFT_API_KEY")
    return {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}


def model_of(server):
    connection = http.client.HTTPConnection(*server, timeout=DEADLINE)
    try:
        connection.request("GET", "/v1/models", headers=headers())
        response = connection.getresponse()
        said = response.read()
        if response.status != 200:
            raise Failure(f"/v1/models answered {error_of(response.status, said)}")
        return json.loads(said)["data"][0]
    except (OSError, http.client.HTTPException) as error:
        raise Failure(f"{server[0]}, port {server[1]}, does not answer ({error}); start weft serve there") from error
    finally:
        connection.close()


def error_of(status, said):
    """The server's sentence, or the bare status."""
    try:
        return f"{status}: {json.loads(said)['error']['message']}"
    except (ValueError, KeyError, TypeError):
        return str(status)


def receive(server, body):
    """Sends one request; returns its start and [(arrival, bytes)]. Nothing is parsed here: that would delay others."""
    start = time.perf_counter()
    connection = http.client.HTTPConnection(*server, timeout=DEADLINE)
    try:
        connection.connect()
        sock = connection.sock  # the connection forgets it where the server is to close
        connection.request("POST", "/v1/completions", body, headers())
        response = connection.getresponse()
        if response.status != 200:
            raise Failure(error_of(response.status, response.read()))
        arrived = []
        while data := response.read1(1 << 16):
            now = time.perf_counter()
            arrived.append((now, data))
            if now - start > DEADLINE:
                raise TimeoutError
            sock.settimeout(DEADLINE - (now - start))
        return start, arrived
    except TimeoutError as error:
        raise Failure(f"no whole answer within {DEADLINE} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise Failure(f"the connection failed: {error or type(error).__name__}") from error
    finally:
        connection.close()


def events(arrived):
    """(arrival of its end, data) of each event. A read may end anywhere, so bytes are first joined to whole lines."""
    rest = b""
    for now, data in arrived:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield now, line[5:].strip().decode()


def measured(server, body):
    """One request: seconds to the first token, seconds per later token (None where there is none), tokens of usage."""
    start, arrived = receive(server, body)
    times, usage, ended = [], None, False
    for now, data in events(arrived):
        if data == "[DONE]":
            ended = True
            break
        event = json.loads(data)
        if "error" in event:
            raise Failure(f"in the stream: {event['error']['message']}")
        usage = event.get("usage") or usage
        if event["choices"] and (event["choices"][0]["text"] or event["choices"][0]["finish_reason"]):
            times.append(now)
    for here, lack in ((ended, "the stream ended early"), (usage, "the stream had no usage"), (times, "no token came")):
        if not here:
            raise Failure(lack)
    tokens = usage["completion_tokens"]
    return {"first": times[0] - start, "each": (times[-1] - times[0]) / (tokens - 1) if tokens > 1 else None,
            "tokens": tokens, "prompt": usage["prompt_tokens"],
            "cached": (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)}


def body_of(options, vocabulary, *place):
    """A request; the same place has the same prompt under one seed, whichever thread is first."""
    draw = random.Random(f"{options.seed} {place}")
    return json.dumps({"prompt": [draw.randrange(vocabulary) for _ in range(options.prompt_tokens)], "temperature": 0,
                       "max_tokens": options.max_tokens, "stream": True, "stream_options": {"include_usage": True}})


def attempt(server, body, done, failed):
    try:
        done.append(measured(server, body))
    except Failure as failure:
        failed.append(str(failure))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        failed.append(f"the stream is not as expected: {error!r}")


def load(server, options, vocabulary, clients):
    """Seconds, what was measured and what failed when so many clients send together."""
    done, failed = [], []
    attempt(server, body_of(options, vocabulary, clients, "warm-up"), [], failed)
    if failed:  # the others would fail alike, each after its deadline
        return 0.0, done, [f"{failed[0]} (the warm-up; its level was left out)"]
    bodies = [[body_of(options, vocabulary, clients, c, r) for r in range(options.requests)] for c in range(clients)]
    together = threading.Barrier(clients + 1)

    def client(mine):
        together.wait()
        for body in mine:
            attempt(server, body, done, failed)

    threads = [threading.Thread(target=client, args=(mine,), daemon=True) for mine in bodies]
    for thread in threads:
        thread.start()
    together.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start, done, failed


def level_of(clients, seconds, done, failed):
    firsts = sorted(d["first"] * 1e3 for d in done)
    each = [d["each"] * 1e3 for d in done if d["each"] is not None]
    tokens = sum(d["tokens"] for d in done)
    return {"clients": clients, "requests": len(done), "failed": len(failed), "seconds": seconds, "tokens": tokens,
            "prompt_tokens": sum(d["prompt"] for d in done), "cached_tokens": sum(d["cached"] for d in done),
            "tokens_per_s": tokens / seconds if seconds else None,
            "first_ms_median": statistics.median(firsts) if firsts else None,
            "first_ms_p90": firsts[math.ceil(0.9 * len(firsts)) - 1] if firsts else None,  # nearest rank
            "ms_per_token_median": statistics.median(each) if each else None,
            "failures": dict(collections.Counter(failed))}


COLUMNS = {"clients": ("clients", "d"), "requests": ("requests", "d"), "tokens": ("tokens", "d"),
           "cached_tokens": ("cached", "d"), "tokens_per_s": ("tokens/s", ".1f"),
           "first_ms_median": ("first ms, median", ".1f"), "first_ms_p90": ("first ms, p90", ".1f"),
           "ms_per_token_median": ("ms/token, median", ".2f")}


def line_of(level):
    cells = [(name, "-" if level[key] is None else format(level[key], form)) for key, (name, form) in COLUMNS.items()]
    return "  ".join(cell.rjust(max(len(name), 8)) for name, cell in cells)


def check(options, model):
    if not all(1 <= c <= MOST_CLIENTS for c in options.clients) or not 1 <= options.requests <= MOST_REQUESTS:
        raise Failure(f"clients go from 1 to {MOST_CLIENTS}, requests from 1 to {MOST_REQUESTS}; pass fewer")
    if options.prompt_tokens < 1 or options.max_tokens < 1:
        raise Failure("--prompt-tokens and --max-tokens are at least 1")
    if "vocab_size" not in model:
        raise Failure("/v1/models names no vocab_size, by which token ids are drawn; give --vocab")
    most = model.get("max_model_len")
    if most and options.prompt_tokens + options.max_tokens > most:
        raise Failure(f"{options.prompt_tokens} prompt tokens and {options.max_tokens} new ones exceed the {most} of "
                      f"{model['id']}; lower --prompt-tokens or --max-tokens")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--requests", type=int, default=3, help="of each client")
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--vocab", type=int, help="token ids are below it; else what /v1/models says")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9, help="of prompts; else the clock's")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    server = server_of(options.url)
    model = model_of(server)
    if options.vocab:
        model["vocab_size"] = options.vocab
    check(options, model)
    if not options.json:
        print(f"{model['id']} at {options.url}: {options.requests} requests of each client, each with "
              f"{options.prompt_tokens} prompt tokens and at most {options.max_tokens} new ones, seed {options.seed}\n")
        print("  ".join(name.rjust(8) for name, _ in COLUMNS.values()), flush=True)
    levels = []
    for clients in options.clients:
        levels.append(level_of(clients, *load(server, options, model["vocab_size"], clients)))
        if not options.json:
            print(line_of(levels[-1]), flush=True)
        for why, count in levels[-1]["failures"].items():
            print(f"{clients} client{'s' * (clients > 1)}: {count} failed: {why}", file=sys.stderr)
    if options.json:
        print(json.dumps({"url": options.url, "model": model["id"], "seed": options.seed, "requests": options.requests,
                          "prompt_tokens": options.prompt_tokens, "max_tokens": options.max_tokens, "levels": levels}))
    return 1 if any(level["failed"] for level in levels) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as refusal:
        sys.exit(f"bench_serve.py: {refusal}")
