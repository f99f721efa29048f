#!/usr/bin/env python3
"""The papers' zero-shot data sets as items for `weft eval --tasks`, from the files their authors publish. Nothing is downloaded.

    paper_tasks.py --arc-easy ARC-Easy-Test.jsonl --arc-challenge ARC-Challenge-Test.jsonl --hellaswag hellaswag_val.jsonl --lambada lambada_test.jsonl
                   --piqa valid.jsonl --piqa-labels valid-labels.lst --sciq test.json --winogrande dev.jsonl > tasks.jsonl

What each file holds, one JSON object a line unless said otherwise, and how it becomes an item (prompts as in lm-evaluation-harness):
    ARC         {"question": {"stem", "choices": [{"text", "label"}]}, "answerKey"}       "Question: STEM\\nAnswer:"; easy: sum, challenge: per byte
    HellaSwag   {"activity_label", "ctx_a", "ctx_b", "endings": [4], "label"}             "LABEL: CTX_A Ctx_b"; per byte
    LAMBADA     {"text"}                                                                  the last word after all others
    PIQA        {"goal", "sol1", "sol2"}, and a file with one label (0 or 1) a line       "Question: GOAL\\nAnswer:"; sum
    SciQ        one JSON list of {"question", "support", "correct_answer", "distractor1", "distractor2", "distractor3"}   "SUPPORT\\nQuestion: ...\\nAnswer:"; sum
    WinoGrande  {"sentence" with one _, "option1", "option2", "answer": "1" or "2"}       what follows the _ after each option; sum
"sum" and "per byte" say which score decides among choices ("score" of an item): the harness's acc and acc_norm, but that it divides by characters without the leading space
where Weft divides by UTF-8 bytes with it.
"""

import argparse
import json
import re
import sys


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def choice(name, context, choices, answer, score):
    return {"task": "continuation", "name": name, "context": context, "choices": [" " + c.strip() for c in choices], "answer": answer, "score": score}


def arc(path, name, score):
    for item in lines_of(path):
        choices = item["question"]["choices"]
        yield choice(name, f"Question: {item['question']['stem']}\nAnswer:", [c["text"] for c in choices], [c["label"] for c in choices].index(item["answerKey"]), score)


def cleaned(text):
    """HellaSwag's WikiHow parts carry marks such as [header] and [title]."""
    return re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def hellaswag(path):
    for item in lines_of(path):
        context = cleaned(f"{item['activity_label']}: {item['ctx_a']} {item['ctx_b'].capitalize()}")
        yield choice("hellaswag", context, [cleaned(e) for e in item["endings"]], int(item["label"]), "byte")


def lambada(path):
    for item in lines_of(path):
        context, _, word = item["text"].rstrip().rpartition(" ")
        yield {"task": "last_word", "name": "lambada", "context": context, "target": " " + word}


def piqa(path, labels):
    with open(labels, encoding="utf-8") as file:
        answers = [int(line) for line in file if line.strip()]
    items = lines_of(path)
    if len(items) != len(answers):
        sys.exit(f"{path} has {len(items)} items and {labels} {len(answers)} labels; give files of the same split")
    for item, answer in zip(items, answers):
        yield choice("piqa", f"Question: {item['goal']}\nAnswer:", [item["sol1"], item["sol2"]], answer, "sum")


def sciq(path):
    with open(path, encoding="utf-8") as file:
        items = json.load(file)
    for item in items:
        context = f"{item['support'].strip()}\nQuestion: {item['question']}\nAnswer:".lstrip()
        yield choice("sciq", context, [item["distractor1"], item["distractor2"], item["distractor3"], item["correct_answer"]], 3, "sum")


def winogrande(path):
    for item in lines_of(path):
        before, _, after = item["sentence"].partition("_")
        yield {"task": "continuation", "name": "winogrande", "contexts": [before + item["option1"], before + item["option2"]], "choices": [" " + after.strip()] * 2,
               "answer": int(item["answer"]) - 1, "score": "sum"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("arc-easy", "arc-challenge", "hellaswag", "lambada", "piqa", "piqa-labels", "sciq", "winogrande"):
        parser.add_argument(f"--{name}", metavar="FILE")
    args = parser.parse_args()
    if bool(args.piqa) != bool(args.piqa_labels):
        parser.error("--piqa and --piqa-labels go together")
    items = []
    items += arc(args.arc_easy, "arc_easy", "sum") if args.arc_easy else []
    items += arc(args.arc_challenge, "arc_challenge", "byte") if args.arc_challenge else []
    items += hellaswag(args.hellaswag) if args.hellaswag else []
    items += lambada(args.lambada) if args.lambada else []
    items += piqa(args.piqa, args.piqa_labels) if args.piqa else []
    items += sciq(args.sciq) if args.sciq else []
    items += winogrande(args.winogrande) if args.winogrande else []
    if not items:
        parser.error("give at least one data set")
    for number, item in enumerate(items):
        print(json.dumps({"id": number, **item}, ensure_ascii=False))


if __name__ == "__main__":
    main()
