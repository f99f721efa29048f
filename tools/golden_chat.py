#!/usr/bin/env python3
"""What transformers makes of chat templates: golden texts for weft/io/jinja.

Reads tests/chat/*.jinja, templates written for these tests with the constructs that the families use (Llama 3, Qwen 3, Gemma,
Phi-3, OLMo 2, Granite, SmolLM 3, Mistral), and the snippets below. Writes tests/chat/golden.json: for each template and
conversation the text that apply_chat_template gives, or null where it refuses; for each snippet the same.
Needs the Python packages transformers (5.22.2 was used) and tokenizers.

usage: tools/golden_chat.py [FOLDER]      # another folder of templates; WEFT_CHAT_FOLDER=FOLDER io_test then compares those
"""

import json
import pathlib
import sys

import transformers
from transformers import PreTrainedTokenizerFast

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "chat"
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}

U, A, S = "user", "assistant", "system"
CONVERSATIONS = [
    [(U, "Hello")],
    [(S, "Be brief."), (U, " Hi there \n"), (A, "Hello!"), (U, "What is 2+2?")],
    [(U, "one"), (A, "<think>\nhm\n</think>\n\ntwo"), (U, "three"), (A, "four")],
    [(S, "sys"), (U, "a'b\"c\\d {{ x }} {% y %}"), (A, ""), (U, "\u4e2d\u6587 \U0001f600\n\nend")],
    [(U, "x"), (U, "y")],
    [(A, "first"), (U, "second")],
    [(S, "only")],
    [(U, "/no_think please"), (A, "ok")],
]
SNIPPETS = [
    "{{ 1 + 2 * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 * 1.5 }} {{ 'ab' * 3 }}",
    "{{ 'a' ~ 1 ~ none ~ true }} {{ [1, 'a', none, 2.0] }} {{ {'k': 'v', 'n': [1]} }} {{ \"it's\" }} {{ ['it\\'s'] }}",
    "{{ x is defined }} {{ messages is defined }} {{ x is undefined }} {{ none is none }} {{ 'a' is string }} {{ [] is iterable }}",
    "{{ {} is mapping }} {{ 1 is number }} {{ 1 is integer }} {{ 1.5 is float }} {{ true is boolean }} {{ true is true }} {{ 3 is odd }} {{ 4 is even }}",
    "{{ 'b' in 'abc' }} {{ 'x' not in 'abc' }} {{ 2 in [1, 2] }} {{ 'k' in {'k': 1} }} {{ not true }} {{ 1 == 1.0 }} {{ 'a' < 'b' }}",
    "{{ 'yes' if messages else 'no' }} {{ 'yes' if x else 'no' }}|{{ 'yes' if x }}|{{ x or 'z' }} {{ messages and 'm' }}",
    "{{ messages[0]['content'] }} {{ messages[0].role }} {{ messages[-1].content }} {{ messages[9] is defined }} {{ messages[0].nothing }}",
    "{{ [1,2,3,4,5][1:3] }} {{ [1,2,3][::-1] }} {{ [1,2,3][-2:] }} {{ 'hello'[1:4] }} {{ 'hello'[::-1] }} {{ [1,2,3][:-1] }} {{ [1,2,3,4][::2] }}",
    "{{ '  a b '|trim }}| {{ 'abc'|length }} {{ [1,2]|length }} {{ 'aBc'|upper }} {{ 'ABC'|lower }} {{ 'hello world'|title }} {{ 'hELLO'|capitalize }}",
    "{{ [1,2,3]|join(', ') }} {{ [3,1]|first }} {{ [3,1]|last }} {{ 'abc'|list }} {{ 'aXbX'|replace('X', '-') }} {{ x|default('d') }} {{ ''|default('e', true) }}",
    "{{ {'a': 1, 'b': [true, none, 'x\"y', 1.5]}|tojson }} {{ [1,{'a':'\u00e9'}]|tojson(indent=2) }} {{ []|tojson(indent=4) }}",
    "{{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ messages|rejectattr('role', 'equalto', 'user')|map(attribute='content')|join('|') }}",
    "{{ '  x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'a\\n\\n'.rstrip('\\n') }}|{{ ' a'.lstrip() }}|{{ 'a,b,c'.split(',') }}|{{ 'a b  c'.split() }}|{{ 'a,b,c'.split(',', 1) }}",
    "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'a-b'.replace('-', '+') }} {{ 'Ab'.upper() }} {{ 'Ab'.lower() }} {{ '-'.join(['a','b']) }}",
    "{{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 'z') }} {% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for i in range(3) %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }} {% endfor %}",
    "{% for i in [1,2,3,4] if i % 2 == 0 %}{{ i }}:{{ loop.index }} {% else %}none{% endfor %}{% for i in [] %}x{% else %}empty{% endfor %}",
    "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1,2] %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}{% set ns = namespace(n=0) %}{% for i in [1,2] %}{% set ns.n = ns.n + i %}{% endfor %} {{ ns.n }}",
    "{% set a, b = [1, 2] %}{{ a }}{{ b }}{% set t %}block {{ a }}{% endset %}[{{ t }}]",
    "{% macro m(a, b='B') %}<{{ a }}{{ b }}>{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}",
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n",
    "a  {%- if true -%}  b  {%- endif -%}  c",
    "a\n    {{- ' x ' -}}\n  b\n",
    "a {%+ if true +%}\n b {% endif %}\n\nc{# comment #}\nd\n  {# other #}\n  e",
    "{% raw %}{{ not code }}{% endraw %}\nx",
    "{{ 'a' 'b' }}{{ \"q\\\"q\" }}{{ '\\t|\\u00e9|\\x41' }}",
    "{% if messages[0].role == 'system' %}s{% elif messages|length > 1 %}many{% else %}one{% endif %}",
    "{{ (messages[0].role == 'user') != (0 % 2 == 0) }} {{ 1 if 2 is divisibleby(2) }}",
    "{% generation %}kept{% endgeneration %}!",
    "{{ messages[0].content | trim | upper ~ '!' }} {{ 1 - 1 | abs }} {{ -1 | abs }}",
    "{{ loop }}{{ undefined_thing }}|{{ bos_token }}{{ eos_token }}|{{ add_generation_prompt }}",
    "{{ nothing.more }}", "{{ 'a' + 1 }}", "{{ 1 < 'a' }}", "{{ raise_exception('no') }}", "{% include 'x' %}", "{{ none + 'a' }}", "{{ 1 / 0 }}",
    "{{ 'x' is in ['x'] }} {{ not 'x' is string }} {{ 'x' is not string }} {{ 3 is eq 3 }} {{ 2 * (3 + 4) }} {{ [[1, 2], [3]]|length }}",
    "{{ '%s' }} {{ true and false or true }} {{ 'a' == 'a' and 'b' != 'c' }} {{ 10 >= 10 }} {{ 'abc'[0] }} {{ 'abc'[-1] }}",
    "{%- for m in messages -%}\n{{ m.role + ':' + m.content }}\n{%- if not loop.last %}, {% endif -%}\n{%- endfor -%}\n",
]


def tokenizer_with(template):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(ROOT / "tests/tokenizers/llama3/tokenizer.json"), **SPECIAL)
    tokenizer.chat_template = template
    return tokenizer


def rendered(tokenizer, messages, begins):
    try:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=begins)
    except Exception as error:  # noqa: BLE001: whatever it is, the template is refused
        print("refused:", str(error)[:80])
        return None


def messages_of(conversation):
    return [{"role": role, "content": content} for role, content in conversation]


def main():
    rows = []
    for path in sorted(OUT.glob("*.jinja")):
        tokenizer = tokenizer_with(path.read_text())
        for index, conversation in enumerate(CONVERSATIONS):
            for begins in (True, False):
                text = rendered(tokenizer, messages_of(conversation), begins)
                rows.append({"template": path.name, "conversation": index, "begins": begins, "text": text})
    for snippet in SNIPPETS:
        rows.append({"snippet": snippet, "conversation": 1, "begins": True,
                     "text": rendered(tokenizer_with(snippet), messages_of(CONVERSATIONS[1]), True)})
    golden = {"made_by": f"tools/golden_chat.py, transformers {transformers.__version__}", **SPECIAL,
              "conversations": [messages_of(c) for c in CONVERSATIONS]}
    text = json.dumps(golden)[:-1] + ',\n"rows": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]}\n"
    (OUT / "golden.json").write_text(text)


if __name__ == "__main__":
    main()
