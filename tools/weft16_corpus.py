"""The text of models/weft-16: fetches Debian documentation packages, extracts prose, removes repeats, parts training from held-out.

    weft16_corpus.py fetch   --work DIR                 apt-get download of the packages of tools/weft16_packages.txt
    weft16_corpus.py extract --work DIR [--seconds S]   one .jsonl of documents per package; run again until it says done
    weft16_corpus.py build   --work DIR                 DIR/train-*.txt.xz, heldout.txt, calibration.txt
    weft16_corpus.py sources --work DIR                 DIR/sources.tsv

A document is the kept paragraphs of one file. Repeats go twice: a paragraph whose letters were seen before is dropped, and so is one
of whose 8-word sequences more than half were seen in an earlier paragraph. Held-out documents are chosen by the hash of their path;
every held-out paragraph that shares an 8-word sequence with the training text (or an earlier held-out paragraph) is dropped from it.
"""

import argparse
import hashlib
import json
import multiprocessing
import subprocess
import time
from pathlib import Path

import numpy as np

import weft16_text

PACKAGES = Path(__file__).with_name("weft16_packages.txt")
SHINGLE = 8  # words
HELD_BYTES, HELD_DOCUMENT, HELD_PER_PACKAGE = 1_150_000, 6000, 3
PARTS, CALIBRATION_BYTES = 6, 1_150_000
NOT_LETTERS = bytes(c for c in range(256) if not (97 <= c <= 122 or c >= 128))


def package_names():
    return [line.split("#")[0].strip() for line in PACKAGES.read_text().splitlines() if line.split("#")[0].strip()]


def fetch(work):
    """Downloads what is missing; apt checks the archive's signatures."""
    debs = work / "deb"
    debs.mkdir(parents=True, exist_ok=True)
    have = {p.name.split("_")[0] for p in debs.glob("*.deb")}
    missing = [name for name in package_names() if name not in have]
    if missing:
        subprocess.run(["apt-get", "download", "-q", *missing], cwd=debs, check=True)


def extract_one(job):
    deb, target = job
    with open(target.with_suffix(".part"), "w", encoding="utf-8") as out:
        for path, paragraphs in weft16_text.documents(deb):
            out.write(json.dumps([path, paragraphs]) + "\n")
    target.with_suffix(".part").rename(target)
    return target


def extract(work, seconds):
    """Extracts package after package with two processes, starting none after `seconds`."""
    (work / "text").mkdir(exist_ok=True)
    wanted = set(package_names())
    debs = sorted(d for d in (work / "deb").glob("*.deb") if d.name.split("_")[0] in wanted)
    jobs = [(d, work / "text" / (d.name.split("_")[0] + ".jsonl")) for d in debs]
    jobs = sorted((j for j in jobs if not j[1].exists()), key=lambda j: j[0].stat().st_size)
    end, ended = time.monotonic() + seconds, 0
    with multiprocessing.Pool(2) as pool:
        for _ in pool.imap_unordered(extract_one, (j for j in jobs), chunksize=1):
            ended += 1
            if time.monotonic() > end:
                pool.terminate()
                break
    print("done" if ended == len(jobs) else f"{len(jobs) - ended} packages left: run again")



def shingles(paragraphs):
    """Hashes of all 8-word sequences that lie inside one paragraph, and the paragraph of each. Words are runs of letters and digits."""
    data = "\n".join(paragraphs).lower().encode()
    text = np.frombuffer(data, dtype=np.uint8)
    inside = np.zeros(256, dtype=bool)
    inside[[c for c in range(256) if c >= 128 or chr(c).isalnum()]] = True
    mask = inside[text]
    starts = np.flatnonzero(mask & ~np.concatenate(([False], mask[:-1])))
    ends = np.append(starts[1:], len(text))
    place = np.arange(len(text)) - np.concatenate((np.zeros(starts[0], dtype=np.int64), np.repeat(starts, ends - starts)))
    powers = np.cumprod(np.full(64, 0x9E3779B97F4A7C15 | 1, dtype=np.uint64))
    letters = np.where(mask, (text.astype(np.uint64) + np.uint64(1)) * powers[np.minimum(place, 63)], np.uint64(0))
    words = np.add.reduceat(letters, starts)
    words ^= words >> np.uint64(29)
    paragraph = np.searchsorted(np.cumsum([len(p.encode()) + 1 for p in paragraphs]), starts, side="right")
    total = sum(words[j:len(words) - SHINGLE + 1 + j] * powers[8 + 3 * j] for j in range(SHINGLE))
    total = (total ^ (total >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    whole = paragraph[:len(paragraph) - SHINGLE + 1] == paragraph[SHINGLE - 1:]
    return total[whole], paragraph[:len(whole)][whole].astype(np.int64)


def read_documents(work):
    """[(package, path, [paragraph, ...])] of all packages; a paragraph whose letters came before is left out."""
    seen, found = set(), []
    for file in sorted((work / "text").glob("*.jsonl")):
        for line in open(file, encoding="utf-8"):
            path, paragraphs = json.loads(line)
            kept = []
            for p in paragraphs:
                key = hash_of(p.lower().encode().translate(None, NOT_LETTERS))
                if key not in seen:
                    seen.add(key)
                    kept.append(p)
            if kept:
                found.append((file.stem, path, kept))
    return found


def hash_of(data):
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def all_shingles(documents):
    """Shingles of all documents and the paragraph of each, counted through; two processes share the work."""
    chunks = [[p for d in documents[i:i + 2000] for p in d[2]] for i in range(0, len(documents), 2000)]
    bases = np.cumsum([0] + [len(c) for c in chunks])
    with multiprocessing.Pool(2) as pool:
        parts = pool.map(shingles, chunks, chunksize=1)
    return np.concatenate([h for h, _ in parts]), np.concatenate([o + base for (_, o), base in zip(parts, bases)]), int(bases[-1])


def near_repeats(hashes, owners, paragraphs):
    """Per paragraph: True when over half of its 8-word sequences came in an earlier paragraph or earlier in it."""
    order = np.argsort(hashes, kind="stable")
    repeated = np.zeros(len(hashes), dtype=bool)
    repeated[order[1:]] = hashes[order[1:]] == hashes[order[:-1]]
    return np.bincount(owners, repeated, paragraphs) > 0.5 * np.bincount(owners, minlength=paragraphs)


def numbered(documents, drop):
    """The documents without dropped paragraphs, as (package, path, [paragraph, ...], [its number, ...])."""
    kept, base = [], 0
    for package, path, paragraphs in documents:
        numbers = [base + i for i in range(len(paragraphs)) if not drop[base + i]]
        texts = [paragraphs[n - base] for n in numbers]
        base += len(paragraphs)
        if sum(map(len, texts)) >= weft16_text.MIN_DOCUMENT:
            kept.append((package, path, texts, numbers))
    return kept


def choose_held_out(documents):
    """Up to HELD_PER_PACKAGE documents of middle length from every package of running text, by the hash of their path, HELD_BYTES in all."""
    taken, chosen, size = {}, set(), 0
    for i in sorted(range(len(documents)), key=lambda i: hash_of((documents[i][0] + documents[i][1]).encode())):
        package, _, paragraphs, _ = documents[i]
        length = sum(map(len, paragraphs))
        if package.startswith(("dict-", "fortunes")) or not 2000 <= length <= 40000 or length < 180 * len(paragraphs):
            continue
        if taken.get(package, 0) < HELD_PER_PACKAGE and size < HELD_BYTES:
            taken[package] = taken.get(package, 0) + 1
            chosen.add(i)
            size += min(length, HELD_DOCUMENT)
    return chosen


def split(documents, hashes, owners, paragraphs):
    """(training documents, held-out documents): no 8-word sequence of the held-out text occurs in the training text."""
    chosen = choose_held_out(documents)
    held = [d for i, d in enumerate(documents) if i in chosen]
    train = [d for i, d in enumerate(documents) if i not in chosen]
    side = np.zeros(paragraphs, dtype=np.uint8)
    for value, part in ((1, train), (2, held)):
        side[[n for d in part for n in d[3]]] = value
    side = side[owners]
    wanted = np.unique(hashes[side == 2])
    place = np.minimum(np.searchsorted(wanted, hashes[side == 1]), len(wanted) - 1)
    shared = np.unique(wanted[place[wanted[place] == hashes[side == 1]]])
    bad = set(owners[(side == 2) & np.isin(hashes, shared)].tolist())
    clean = []
    for package, path, texts, numbers in held:
        kept = [t for t, n in zip(texts, numbers) if n not in bad]
        kept = kept[:max(1, int(np.searchsorted(np.cumsum([len(p) for p in kept]), HELD_DOCUMENT, side="right")))]
        if sum(map(len, kept)) >= 1000:
            clean.append((package, path, kept))
    return [d[:3] for d in train], clean


def source(job):
    deb, used = job
    name, version = deb.name.split("_")[:2]
    names = weft16_text.licences(deb)
    names = names[:8] + ["and others"] * (len(names) > 8) or ["in the copyright file of a sibling package of the same source"]
    digest = hashlib.sha256(deb.read_bytes()).hexdigest()
    return "\t".join([name, version.replace("%3a", ":"), digest, str(used[0]), str(used[1]), ", ".join(names)])


def sources(work):
    """What came from where: package, version, SHA-256 of the .deb, bytes of text, licences as the copyright file names them."""
    used = json.loads((work / "used.json").read_text())
    debs = [(d, used[d.name.split("_")[0]]) for d in sorted((work / "deb").glob("*.deb")) if d.name.split("_")[0] in used]
    with multiprocessing.Pool(2) as pool:
        rows = pool.map(source, debs, chunksize=4)
    head = "package\tversion\tsha256\ttrain_bytes\theldout_bytes\tlicences"
    (work / "sources.tsv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")


def calibration(texts):
    """The first CALIBRATION_BYTES of the shorter training documents: text to distil on, so that heldout.txt only ever measures."""
    chosen, size = [], 0
    for text in texts:
        if len(text) <= 20000 and size < CALIBRATION_BYTES:
            chosen.append(text)
            size += len(text.encode()) + 2
    return "\n\n".join(chosen) + "\n"


def build(work):
    documents = read_documents(work)
    hashes, owners, paragraphs = all_shingles(documents)
    print(paragraphs, "paragraphs,", sum(len(p) for d in documents for p in d[2]), "characters without exact repeats", flush=True)
    documents = numbered(documents, near_repeats(hashes, owners, paragraphs).tolist())
    print(len(documents), "documents,", sum(len(p) for d in documents for p in d[2]), "characters without near repeats", flush=True)
    train, held = split(documents, hashes, owners, paragraphs)
    (work / "heldout.txt").write_text("\n\n".join(p for d in held for p in d[2]) + "\n", encoding="utf-8")
    used = {}
    for which, part in enumerate((train, held)):
        for package, _, texts in part:
            used.setdefault(package, [0, 0])[which] += sum(len(p) + 2 for p in texts)
    (work / "used.json").write_text(json.dumps(used) + "\n")
    train.sort(key=lambda d: hash_of((d[1] + d[0]).encode()))
    parts = [[] for _ in range(PARTS)]
    for n, d in enumerate(train):
        parts[n * PARTS // len(train)].append("\n\n".join(d[2]))
    (work / "calibration.txt").write_text(calibration(parts[0]), encoding="utf-8")
    for n, part in enumerate(parts):
        (work / f"train-{n}.txt").write_text("\f".join(part), encoding="utf-8")
    print(len(held), "held-out documents,", len(train), "training documents", flush=True)
    subprocess.run(["xz", "-T2", "-3", "-kf", *(str(work / f"train-{n}.txt") for n in range(PARTS))], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phase", choices=["fetch", "extract", "build", "sources"])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=1e9)
    args = parser.parse_args()
    if args.phase == "fetch":
        fetch(args.work)
    elif args.phase == "extract":
        extract(args.work, args.seconds)
    else:
        {"build": build, "sources": sources}[args.phase](args.work)


if __name__ == "__main__":
    main()
