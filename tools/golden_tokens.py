#!/usr/bin/env python3
"""Small tokenizers of every kind that Weft reads, and what the libraries that define them make of nasty strings.

Writes under tests/tokenizers/: one folder a tokenizer, trained on the beginning of models/weft-16/calibration.txt, and golden.json
in each: texts, their ids, and what the ids decode to where it is not the text. Also tests/tokenizers/weft-16.json for the bundled model's own tokenizer.
hostile.txt in each folder has a hash of the ids of each of 6,000 texts, which this program and the test make from one seed and
the alphabets of tests/tokenizers/hostile.json. A folder that is there already keeps its tokenizer; only what is golden is written anew.
Needs the Python packages tokenizers (0.23.3 was used) and sentencepiece (0.2.2); for sp-bpe-not-legacy also transformers 4 (4.57.6),
the last with the tokenizer in Python that defined `"legacy": false`. Without it that folder is left as it is.

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


class Hostile:
    """The texts of hostile.json's seed: the same generator is in weft/io/text/hostile_test.cc."""

    def __init__(self):
        raw = json.loads((OUT / "hostile.json").read_text())
        self.state, self.count, self.alphabets = raw["seed"], raw["texts"], raw["alphabets"]

    def below(self, count):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % count

    def text(self):
        parts = []
        for _ in range(1 + self.below(24)):
            alphabet = self.alphabets[self.below(len(self.alphabets))]
            parts.append(alphabet[self.below(len(alphabet))])
        return "".join(parts)

    def texts(self):
        return [self.text() for _ in range(self.count)]


def hash_of(*lists):
    """FNV-1a over the ids, four bytes each, every list closed by 0xFFFFFFFF."""
    value = 0x811C9DC5
    for ids in lists:
        for number in [*ids, 0xFFFFFFFF]:
            for byte in number.to_bytes(4, "little"):
                value = (value ^ byte) * 0x01000193 % 2**32
    return f"{value:08x}"


def write_hostile(path, *encodes):
    path.write_text("".join(hash_of(*(encode(text) for encode in encodes)) + "\n" for text in Hostile().texts()))


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
    file = folder / "tokenizer.json"
    if file.exists():
        tokenizer = Tokenizer.from_file(str(file))
    else:
        file.write_text(tokenizer.to_str(pretty=False) + "\n")
        (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    golden_hf(folder / "golden.json", tokenizer)
    write_hostile(folder / "hostile.txt", lambda text: plain_ids(tokenizer, text), lambda text: special_ids(tokenizer, text))


def plain_ids(tokenizer, text):
    """The ids of a text in which special tokens are ordinary text: the library is asked with another encode_special_tokens."""
    tokenizer.encode_special_tokens = True
    return tokenizer.encode(text, add_special_tokens=False).ids


def special_ids(tokenizer, text):
    tokenizer.encode_special_tokens = False
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
    file = folder / "tokenizer.model"
    if not file.exists():
        stream = io.BytesIO()
        lines = [line for part in corpus() for line in part.split("\n")]
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=stream, minloglevel=2, num_threads=1, **options)
        file.write_bytes(stream.getvalue())
        (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    processor = sentencepiece.SentencePieceProcessor(model_proto=file.read_bytes())
    write_golden(folder / "golden.json", "sentencepiece " + sentencepiece.__version__, processor.encode, processor.decode)
    write_hostile(folder / "hostile.txt", processor.encode)


def not_legacy(name, source):
    """The same model with `"legacy": false`: a space goes before the first stretch of text alone."""
    try:
        from transformers import LlamaTokenizer
        tokenizer = LlamaTokenizer(str(OUT / source / "tokenizer.model"), legacy=False)
    except (ImportError, TypeError, ValueError):
        tokenizer = None
    if tokenizer is None or tokenizer.is_fast:
        print(f"{name}: left as it is; transformers 4 is not there")
        return
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.model").write_bytes((OUT / source / "tokenizer.model").read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps({"legacy": False}) + "\n")
    write_hostile(folder / "hostile.txt", lambda text: tokenizer.encode(text, add_special_tokens=False))


def byte_level(stages, normalizer=None, added=()):
    """Byte-level BPE behind some stages; `added` are tokens as add_tokens writes them: normalized."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(stages)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens(list(added))
    return tokenizer


def split(pattern, behavior="isolated"):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert=False)


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
ENDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}|{TAIL}"
O200K = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ENDS}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ENDS}|\p{{N}}{{1,3}}|{TAIL}"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
SEVERAL = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
           r"\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level_families():
    """Tokenizers of one kind of model and different stages before it."""
    extra = [AddedToken("<extra>", normalized=True), AddedToken("caf\u00e9", normalized=True), AddedToken("  ", normalized=True, rstrip=True)]
    yield "qwen2", byte_level([split(QWEN2), BYTES], normalizers.NFC(), extra)
    yield "neox", byte_level([pre_tokenizers.ByteLevel(add_prefix_space=True)], normalizers.NFC(), extra)
    yield "digits", byte_level([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    yield "tekken", byte_level([split(TEKKEN), BYTES])
    yield "o200k", byte_level([split(O200K), BYTES])
    yield "splits", byte_level([split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(SEVERAL), BYTES])


def with_added(tokenizer):
    """Tokens as add_tokens writes them, which the normalizer changes like any text."""
    tokenizer.add_tokens([AddedToken("<extra>", normalized=True), AddedToken("ab c", normalized=True, lstrip=True)])
    tokenizer.add_special_tokens([AddedToken("[/INST]", normalized=False, rstrip=True)])
    return tokenizer


def single_word():
    """Added tokens that are found only where no word goes on beside them."""
    return byte_level([pre_tokenizers.ByteLevel(add_prefix_space=False)], added=[
        AddedToken("a", single_word=True, normalized=False), AddedToken("ta", single_word=True, normalized=True, rstrip=True),
        AddedToken("12", single_word=True, normalized=False, lstrip=True), AddedToken("\u4e2d", single_word=True, normalized=False)])


def gemma():
    """Gemma's: spaces as U+2581 with none put before, bytes, runs of line ends as tokens."""
    raw = json.loads(llama2(False).to_str())
    tokenizer = Tokenizer.from_str(json.dumps(raw))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous", invert=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("\n\n\n", normalized=False), AddedToken("<start_of_turn>", normalized=False)])
    return tokenizer


def unigram():
    """Unigram with its pieces begun by U+2581, and spaces in a row made one by a regular expression."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(vocab_size=500, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def word_piece():
    """BERT's."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=600, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer



def main():
    OUT.mkdir(parents=True, exist_ok=True)
    golden_hf(OUT / "weft-16.json", Tokenizer.from_file(str(ROOT / "models" / "weft-16" / "tokenizer.json")))
    special = {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}
    write_hf("llama3", llama3(False), special)
    write_hf("llama3-ignore-merges", drop_merge(llama3(True), 40), special)
    write_hf("llama2", llama2(False), {"bos_token": {"content": "<s>"}, "eos_token": {"content": "</s>"}, "add_bos_token": True})
    write_hf("llama2-metaspace", llama2(True), {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": False})
    for name, tokenizer in byte_level_families():
        write_hf(name, tokenizer, {"eos_token": "<|endoftext|>"})
    write_hf("llama2-added", with_added(llama2(False)), {"bos_token": "<s>", "eos_token": "</s>"})
    write_hf("single-word", single_word(), {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"})
    write_hf("gemma", gemma(), {"bos_token": "<s>", "eos_token": "</s>"})
    write_hf("unigram", unigram(), {"eos_token": "</s>"})
    write_hf("word-piece", word_piece(), {})
    # As Llama 2's tokenizer.model: text as it is, bytes for what is unknown, digits apart.
    sentencepiece_model("sp-bpe", {}, model_type="bpe", vocab_size=600, byte_fallback=True, normalization_rule_name="identity", split_digits=True,
                        remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, character_coverage=0.999)
    not_legacy("sp-bpe-not-legacy", "sp-bpe")
    # As T5's: unigram, spaces tidied, a map of replacements, user-defined pieces, no bytes. The map is made here, since NFKC's is 240 KB.
    rules = OUT / "rules.tsv"
    rows = [("FB01", "66 69"), ("FF21", "41"), ("FF22", "42"), ("FF23", "43"), ("A0", "20"), ("3000", "20"), ("9", "20"), ("A", "20"), ("D", "20"), ("65 301", "E9"), ("200B", "")]
    rules.write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    sentencepiece_model("sp-unigram", {"add_bos_token": False}, model_type="unigram", vocab_size=500, normalization_rule_tsv=str(rules),
                        user_defined_symbols=["<pad>", "=="], character_coverage=0.999)
    rules.unlink()


if __name__ == "__main__":
    main()
