"""Prose out of Debian documentation packages: one .deb in, a list of documents of clean English paragraphs out.

What a package holds is HTML, DocBook and Mallard XML, man pages, info files and plain text. Each is cut into paragraphs;
a paragraph is kept when it reads like English prose: long enough, mostly letters, ASCII, with the share of function words
that English has. Code blocks, tables, indices and navigation go. Everything is deterministic. tools/weft16_corpus.py calls this.
"""

import gzip
import html
import re
import subprocess
import tarfile

STOPWORDS = frozenset(
    "the of and to a in is that for it as with are be this on not by or an you can if from at which have will when has "
    "one but all was your they their there its may more other than used use any such only must should we he his her so "
    "no were had been who what out up do into then them these those some also where each how about would".split())

MARKUP = re.compile(r"\.(x?html?|xml|page|docbook)(\.gz)?$")
MAN = re.compile(r"/man\d/[^/]*\.\d\w*(\.gz)?$")
PLAIN = re.compile(r"(\.(txt|text|rst|md|markdown|info|info-\d+|dict\.dz|tutor)(\.gz)?|/fortunes/[^./]+)$")
SKIP = re.compile(
    r"(/changelog|/copyright|/NEWS|[-_]members\.html|_source\.html|/functions[_.]|/globals[_.]|/annotated|/hierarchy|"
    r"/classes\.html|/index-all|/genindex|/py-modindex|/search|/(class|struct|union|namespace)[A-Za-z0-9_]*_?\w*\.html|"
    r"/share/help/(?!C/)|/(?!en)[a-z]{2,3}[-_][A-Z][A-Za-z]+/|\.3(cxx|qt)|/_sources/|/_modules/|/src/|/(de|fr|es|it|ja|ko|nl|pt|pt[-_]BR|ru|zh|zh[-_]CN|zh[-_]TW|sv|tr|pl|cs|da|el|fi|hu|uk|ca)/|"
    r"\.(de|fr|es|it|ja|ko|nl|pt|ru|sv|tr|pl|cs|da|zh)(\.\w+)?\.html)")

DROPPED = re.compile(r"<(script|style|head|nav|pre|footer|svg|math|table|programlisting|screen|code-block|synopsis)\b.*?</\1\s*>",
                     re.S | re.I)
COMMENT = re.compile(r"<!--.*?-->", re.S)
BLOCK = re.compile(r"</?(p|div|li|dt|dd|dl|ul|ol|h[1-6]|tr|td|th|table|section|article|blockquote|br\s*/?|hr|body|para|simpara|"
                   r"title|item|listitem|note|steps|refentry|refsect\d|sect\d|chapter|varlistentry|term|figure|figcaption|"
                   r"header|main|aside|details|summary)\b[^>]*>", re.I)
TAG = re.compile(r"<[^>]*>")
SPACE = re.compile(r"\s+")
PUNCTUATION = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": " - ",
                             "\u2026": "...", "\u00a0": " ", "\u2212": "-", "\u2010": "-", "\u2011": "-", "\u00b6": "",
                             "\u200b": "", "\u00ad": "", "\uf0c1": "", "\u2022": " "})
EMPHASIS = re.compile(r"\*\*|``|(?<![\w/.])_(?=\S)|(?<=\S)_(?![\w/.])|[{}](?=[A-Za-z .,;)]|$)")
WORD = re.compile(r"[A-Za-z']+")
MIN_PARAGRAPH, MIN_DOCUMENT, MAX_FILE = 80, 400, 4 << 20


def markup_paragraphs(text):
    """Paragraphs of HTML or XML: block tags end a paragraph, inline tags vanish, code and tables go."""
    text = COMMENT.sub("", text)
    text = DROPPED.sub("\n\n", text)
    text = SPACE.sub(" ", text)
    text = BLOCK.sub("\n\n", text)
    return html.unescape(TAG.sub("", text)).split("\n\n")


def man_paragraphs(text):
    """Paragraphs of a man page: font macros keep their words, other macros end a paragraph."""
    lines, verbatim = [], False
    for line in text.split("\n"):
        if re.match(r"\.(nf|EX|TS)", line):
            verbatim = True
        elif re.match(r"\.(fi|EE|TE)", line):
            verbatim = False
        elif verbatim or line.startswith((".\\\"", "'\\\"", ".SH", ".Sh", ".TH")):
            lines.append("")
        elif re.match(r"\.(B|I|BR|RB|IR|RI|BI|IB|SM|Nm|Fl|Ar|Em|Xr|Pa|Dv|Va|Li)\b", line):
            lines.append(line.partition(" ")[2].replace('"', ""))
        else:
            lines.append("" if line.startswith((".", "'")) else line)
    text = re.sub(r"\\f[A-Z]|\\f\(\w\w|\\&|\\%|\\[|^]|\\s[-+]?\d", "", "\n".join(lines))
    text = text.replace("\\-", "-").replace("\\(aq", "'").replace("\\(dq", '"').replace("\\(em", " - ").replace("\\ ", " ")
    return plain_paragraphs(text)


def plain_paragraphs(text):
    """Paragraphs of plain text, info, reStructuredText or Markdown: blank lines and % part them; deep indents are code."""
    paragraphs = re.split(r"\n\s*\n|\n%\n|\n\x1f\n", text)
    return [p for p in paragraphs if not re.search(r"[|+=~^]{3}|-{4}|\.{5}|::|\{\{|;\n", p)]


def is_prose(paragraph):
    """Whether a cleaned paragraph reads like English prose."""
    if len(paragraph) < MIN_PARAGRAPH or paragraph[-1] not in ".!?:\")'" or len(paragraph) > 20000:
        return False
    if not paragraph.isascii() and len(paragraph.encode()) - len(paragraph) > 0.03 * len(paragraph):
        return False
    words = WORD.findall(paragraph)
    letters = sum(map(len, words))
    if len(words) < 12 or letters < 0.72 * len(paragraph) or letters < 3.2 * len(words):
        return False
    if re.search(r"\b(copyright|Generated on|licen[cs]ed? under|All rights reserved)\b", paragraph, re.I) and len(paragraph) < 400:
        return False
    return sum(w.lower() in STOPWORDS for w in words) >= 0.25 * len(words)


def documents(deb):
    """Yields (path, [paragraph, ...]) for every readable file of a Debian package file."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as unpack:
        with tarfile.open(fileobj=unpack.stdout, mode="r|") as members:
            for member in members:
                kept = paragraphs_of(member.name, lambda: members.extractfile(member).read()) \
                    if member.isfile() and 1000 < member.size < MAX_FILE * 8 else []
                if sum(map(len, kept)) >= MIN_DOCUMENT:
                    yield member.name, kept
        unpack.stdout.read()  # the padding, so that dpkg-deb ends in peace


def paragraphs_of(path, read):
    """The prose paragraphs of one file; none when its kind is not text for people."""
    reader = (markup_paragraphs if MARKUP.search(path) else man_paragraphs if MAN.search(path)
              else plain_paragraphs if PLAIN.search(path) else None)
    if reader is None or SKIP.search(path):
        return []
    data = read()
    try:
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError):
        return []
    if len(data) > MAX_FILE and not path.endswith(".dict.dz"):
        return []
    text = data.decode("utf-8", "replace").translate(PUNCTUATION)
    cleaned = (SPACE.sub(" ", EMPHASIS.sub("", p)).lstrip(" *-#>.|").rstrip(" |") for p in reader(text))
    return [p for p in cleaned if is_prose(p)]


def licences(deb):
    """The licence names of a package's copyright file: its License fields, or well-known names found in free text."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as unpack:
        with tarfile.open(fileobj=unpack.stdout, mode="r|") as members:
            text = next((members.extractfile(m).read().decode("utf-8", "replace") for m in members
                         if m.isfile() and m.name.endswith("/copyright")), "")
        unpack.stdout.close()
    names = re.findall(r"^License:[ \t]*(\S.*)$", text, re.M)
    if not names:
        names = [n for n in ("GFDL", "LGPL", "GPL", "Apache", "BSD", "MIT", "Artistic", "CC-BY-SA", "public domain") if n.lower() in text.lower()]
        names = names or [n for n, words in {"GFDL": "free documentation licen", "GPL": "general public licen",
                                            "permissive": "permission"}.items() if words in text.lower()]
    return sorted(set(names))
