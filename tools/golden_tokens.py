#!/usr/bin/env python3
"""Small tokenizers of every kind that Weft reads, and what the libraries that define them make of nasty strings.

Writes under tests/tokenizers/: one folder a tokenizer, trained on the beginning of models/weft-16/calibration.txt, and golden.json
in each: texts, their ids, and what the ids decode to where it is not the text. Also tests/tokenizers/weft-16.json for the bundled model's own tokenizer.
Needs the Python packages tokenizers (0.23.3 was used) and sentencepiece (0.2.2).

usage: tools/golden_tokens.py
"""

import io
import json
import pathlib
import random

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests" / "tokenizers"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXTS = [
    "", " ", "  ", "a", " a", "  a", "a ", "a  ", "\n", "\n\n", " \n", "\n ", "\t\ttabs\tand\r\nline ends\r\n\r\n  indented",
    "The Linux kernel is", "To install the package, run the following command as root", "Hello, world!", "hello  world   again    x",
    "I'm sure they're what we've said; he'd, she'll, it's, don't, 'tis", "I'M SURE THEY'RE WE'VE HE'D SHE'LL IT'S DON'T", "'s't're've'm'll'd'x''s",
    "don\u2019t \u2018quoted\u2019 \u201cdouble\u201d", "'\u017f '\u017fx 'L\u017f", "1 12 123 1234 12345 3.14159 1,000,000 0x1F 2^10", "abc123def456", "\u0664\u0665 \u2167 \u00bd x\u00b2",
    "\U0001f600", "smile \U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 flags \U0001f1e9\U0001f1ea", "e\u0301 cafe\u0301 caf\u00e9 a\u0308\u0323", "\u4e2d\u6587\u5b57\u7b26 \u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8",
    "\ud55c\uad6d\uc5b4 \u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u05e2\u05d1\u05e8\u05d9\u05ea \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22", "\u3000wide\u00a0hard\u2003em\u2028line\u0085next", "\ufb01ligature \uff21\uff22\uff23 \u2460 \u210c",
    "zero\u200bwidth \ufeffbom", "nul\x00byte \x01\x1f\x7f", "\ufffd", "\u2581", "\u2581a \u2581\u2581b", "a\u2581b", "<s> </s> <unk> <0x41> <pad>", "<|endoftext|>", "say <|endoftext|> twice<|endoftext|>",
    "if (x == 0) {\n    return y->z[i++];  // why?\n}\n", "https://www.debian.org/doc/index.en.html?x=1&y=%20", "__init__ snake_case camelCase PascalCase SCREAMING_CASE", "!!!???...,,,---===***", " !", "  !!\n\n  ??", "$100 50% #1 @user",
    "a" * 100, "ab" * 60, "aaa bbb " * 20, " " * 50, "\n" * 20, " \n" * 15, "x" + " " * 30 + "y", "=" * 80, "\u4e2d" * 40, "\U0001f600" * 12, "0123456789" * 8,
    "supercalifragilisticexpialidocious antidisestablishmentarianism", "The quick brown fox jumps over the lazy dog. " * 4,
    "[user] and [user]more", "x [user]  y",
]


def more_texts(seed, count):
    """Random strings of characters from scripts, spaces and punctuation, to try what nobody thought of."""
    rng = random.Random(seed)
    alphabets = ["etaoin shrdlu", "  \n\t\r", "0123456789", ".,;:!?'\"()-_/", "'sStTmMdDrReEvVlL ", "\u00e9\u00df\u0142\u0301\u0308", "\u4e2d\u6587\U0001f600\u200d", "\u00a0\u2003\u3000\u2581"]
    return ["".join(rng.choice(rng.choice(alphabets)) for _ in range(rng.randrange(1, 40))) for _ in range(count)]


def corpus():
    text = (ROOT / "models" / "weft-16" / "calibration.txt").read_text()[:300000]
    return [part for part in text.split("\n\n") if part]


def write_golden(path, made_by, encode, decode):
    """One row a text; what cannot be written in UTF-8 is not asked of these libraries."""
    rows = []
    for text in TEXTS + more_texts(7, 200):
        ids = encode(text)
        decoded = decode(ids)
        rows.append({"text": text, "ids": ids} | ({"decoded": decoded} if decoded != text else {}))
    lines = ",\n".join(json.dumps(row) for row in rows)
    path.write_text('{"made_by": "tools/golden_tokens.py, ' + made_by + '",\n"rows": [\n' + lines + "\n]}\n")


def write_hf(name, tokenizer, config):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    golden_hf(folder / "golden.json", tokenizer)


def plain_ids(tokenizer, text):
    """The ids of a text in which special tokens are ordinary text: the library is asked with another encode_special_tokens."""
    tokenizer.encode_special_tokens = True
    return tokenizer.encode(text, add_special_tokens=False).ids


def golden_hf(path, tokenizer):
    write_golden(path, "tokenizers " + tokenizers.__version__, lambda text: plain_ids(tokenizer, text),
                 lambda ids: tokenizer.decode(ids, skip_special_tokens=False))


def llama3(ignore_merges):
    """Llama 3's: its pattern, and a bos put before texts by a template."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated", invert=False),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    tokenizer.add_tokens([AddedToken("[user]", rstrip=True)])
    bos = "<|begin_of_text|>"
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tokenizer.token_to_id(bos))])])
    return tokenizer


def drop_merge(tokenizer, index):
    """Without one merge its token can only be reached where merges are ignored, which then shows."""
    raw = json.loads(tokenizer.to_str())
    left, right = raw["model"]["merges"][index]
    used = [m for m in raw["model"]["merges"] if left + right not in m]
    used.remove([left, right])
    raw["model"]["merges"] = [m for m in used if all(part in raw["model"]["vocab"] for part in m)]
    return Tokenizer.from_str(json.dumps(raw))


def llama2(metaspace):
    """Llama 2's: characters, byte fallback, and spaces as U+2581 either by normalizers (the old way) or by Metaspace."""
    bytes_ = {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    trained.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>", "<s>", "</s>"], limit_alphabet=90, show_progress=False))
    raw = json.loads(trained.to_str())["model"]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, **bytes_}
    for text in sorted(raw["vocab"], key=raw["vocab"].get):
        vocab.setdefault(text, len(vocab))
    tokenizer = Tokenizer(models.BPE(vocab, [tuple(m) for m in raw["merges"]], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
        tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def sentencepiece_model(name, config, **options):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    stream = io.BytesIO()
    lines = [line for part in corpus() for line in part.split("\n")]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=stream, minloglevel=2, num_threads=1, **options)
    (folder / "tokenizer.model").write_bytes(stream.getvalue())
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    processor = sentencepiece.SentencePieceProcessor(model_proto=stream.getvalue())
    write_golden(folder / "golden.json", "sentencepiece " + sentencepiece.__version__, processor.encode, processor.decode)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    golden_hf(OUT / "weft-16.json", Tokenizer.from_file(str(ROOT / "models" / "weft-16" / "tokenizer.json")))
    special = {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}
    write_hf("llama3", llama3(False), special)
    write_hf("llama3-ignore-merges", drop_merge(llama3(True), 40), special)
    write_hf("llama2", llama2(False), {"bos_token": {"content": "<s>"}, "eos_token": {"content": "</s>"}, "add_bos_token": True})
    write_hf("llama2-metaspace", llama2(True), {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": False})
    # As Llama 2's tokenizer.model: text as it is, bytes for what is unknown, digits apart.
    sentencepiece_model("sp-bpe", {}, model_type="bpe", vocab_size=600, byte_fallback=True, normalization_rule_name="identity", split_digits=True,
                        remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, character_coverage=0.999)
    # As T5's: unigram, spaces tidied, a map of replacements, user-defined pieces, no bytes. The map is made here, since NFKC's is 240 KB.
    rules = OUT / "rules.tsv"
    rows = [("FB01", "66 69"), ("FF21", "41"), ("FF22", "42"), ("FF23", "43"), ("A0", "20"), ("3000", "20"), ("9", "20"), ("A", "20"), ("D", "20"), ("65 301", "E9"), ("200B", "")]
    rules.write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    sentencepiece_model("sp-unigram", {"add_bos_token": False}, model_type="unigram", vocab_size=500, normalization_rule_tsv=str(rules),
                        user_defined_symbols=["<pad>", "=="], character_coverage=0.999)
    rules.unlink()


if __name__ == "__main__":
    main()
