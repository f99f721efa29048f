"""The zero-shot items of models/weft-16/tasks.jsonl, made from heldout.txt alone; the same text gives the same file.

    weft16_tasks.py models/weft-16/heldout.txt > models/weft-16/tasks.jsonl

last_word     {"id", "task", "context", "target"}: a word of four letters or more, no function word, that has come in the context already; at most three
              of a sentence, ends of clauses preferred. Right when every token of the target is the most probable one in its turn.
continuation  {"id", "task", "context", "choices", "answer"}: the next words of a sentence against as many words from each of three other sentences of
              the neighbourhood. Right when the answer's choice has the largest log-probability per UTF-8 byte.
Targets and choices begin with their space, so tokens(context) + tokens(choice) = tokens(context + choice) for byte-level BPE.
No word is scored in two items: the continuation taken from a sentence does not hold a last word taken from it.
"""

import json
import random
import re
import sys

from weft16_text import STOPWORDS

LAST_WORDS, CONTINUATIONS = 6000, 4400
LAST_CONTEXT, CONTINUATION_CONTEXT = 240, 180  # bytes, cut at a word
NEAR = 40  # sentences either side that lend the wrong choices
SENTENCE = re.compile(r"[^.!?]+(?:[.!?](?!\s+[A-Z\"'(]|$)[^.!?]*)*[.!?]?")
WORD = re.compile(r" ([A-Za-z]{4,})(?=[ .,;:!?])")


def cut(context, limit):
    """The last `limit` bytes or less, from the start of a word."""
    if len(context.encode()) <= limit:
        return context
    tail = context.encode()[-limit:].decode("utf-8", "ignore")
    return tail[tail.find(" ") + 1:]


def sentences_of(text):
    """[(paragraph, start, end)] of every sentence of at least 12 words."""
    found = []
    for paragraph in text.split("\n\n"):
        for m in SENTENCE.finditer(paragraph):
            start = m.start() + len(m.group()) - len(m.group().lstrip())
            if len(paragraph[start:m.end()].split()) >= 12:
                found.append((paragraph, start, m.end()))
    return found


def last_words(sentence, rng):
    """Up to three words of the sentence that came before in its context: [(position of its space, item)]; clause ends first."""
    paragraph, start, end = sentence
    fits = []
    for m in WORD.finditer(paragraph, start, end):
        context = cut(paragraph[:m.start()], LAST_CONTEXT)
        if m.group(1).lower() not in STOPWORDS and len(context) >= 80 and re.search(rf"\b{m.group(1)}\b", context):
            clause_end = paragraph[m.end():m.end() + 1] in ".,;:!?"
            fits.append((not clause_end, rng.random(), m.start(), {"task": "last_word", "context": context, "target": m.group()}))
    return [(place, item) for _, _, place, item in sorted(fits, key=lambda f: f[:3])[:3]]


def span(sentence, rng, words, taken=()):
    """(start, end) of `words` whole words of the sentence past its fifth, holding no position in `taken`; None if there is no room."""
    paragraph, start, end = sentence
    spaces = [m.start() for m in re.finditer(" ", paragraph[:end]) if m.start() > start]
    fits = [(a, b) for a, b in zip(spaces[4:], spaces[4 + words:])
            if paragraph[a + 1].islower() and not any(a <= t < b for t in taken)]
    return rng.choice(fits) if fits else None


def continuation(sentences, i, rng, taken):
    words = rng.randint(5, 8)
    place = span(sentences[i], rng, words, taken)
    if place is None:
        return None
    paragraph = sentences[i][0]
    right, wrong = paragraph[place[0]:place[1]], []
    near = [j for j in range(max(0, i - NEAR), min(len(sentences), i + NEAR + 1)) if sentences[j][0] is not paragraph]
    rng.shuffle(near)
    for j in near:
        other = span(sentences[j], rng, words)
        text = sentences[j][0][other[0]:other[1]] if other else right
        if text != right and text not in wrong and len(wrong) < 3:
            wrong.append(text)
    context = cut(paragraph[:place[0]], CONTINUATION_CONTEXT)
    if len(wrong) < 3 or len(context) < 40:
        return None
    answer = rng.randrange(4)
    return {"task": "continuation", "context": context, "choices": wrong[:answer] + [right] + wrong[answer:], "answer": answer}


def main():
    sentences = sentences_of(open(sys.argv[1], encoding="utf-8").read())
    rng = random.Random(16)
    ends, middles = [], []
    for i, sentence in enumerate(sentences):
        words = last_words(sentence, rng)
        ends += [item for _, item in words]
        middle = continuation(sentences, i, rng, [place for place, _ in words])
        if middle:
            middles.append(middle)
    print(len(sentences), "sentences:", len(ends), "last words,", len(middles), "continuations", file=sys.stderr)
    rng.shuffle(ends)
    rng.shuffle(middles)
    for n, item in enumerate(ends[:LAST_WORDS] + middles[:CONTINUATIONS]):
        print(json.dumps({"id": n, **item}, ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    main()
