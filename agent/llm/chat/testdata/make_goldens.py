"""Makes the goldens of agent/llm/chat with transformers' own template environment.

  python make_goldens.py [TOKENIZERS_DIR SMOLLM2_GGUF]

TOKENIZERS_DIR holds one folder per model with tokenizer.json and
tokenizer_config.json. Needs transformers, jinja2, gguf. The rendered texts are
stored; the templates and tokenizers of published models are not. Without
arguments the script writes only micro.json, which needs no models and no gguf.
"""
import json
import os
import random
import sys

from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import _compile_jinja_template

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["llama3", "llama3_2", "qwen2_5", "qwen3"]

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city — «now»",
     "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "name <b> & 'x' \"q\""},
                                                     "days": {"type": "integer", "default": 3, "minimum": 0.5}},
                    "required": ["city"], "strict": True, "extra": None, "empty": {}, "none": []}}},
    {"type": "function", "function": {"name": "z", "parameters": {}}},
]
S = {"role": "system", "content": "You are in a maze.\n"}
U = {"role": "user", "content": "  Where am I? <|im_end|> 你好\n"}
A = {"role": "assistant", "content": "Thought: look.\n\nAction: move up"}
U2 = {"role": "user", "content": "You moved up."}
A2 = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nAction: move down "}

CONVERSATIONS = {
    "user": [U], "system user": [S, U], "one turn": [U, A], "two turns": [S, U, A, U2, A2],
    "open": [S, U, A, U2], "thinking": [U, A2, U2, A2, U], "empty contents": [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}, U],
    "late system": [U, A, S, U2],
}


def micro():
    """Pairs of a template and its variables. Each template tests one construct."""
    v = {"xs": [1, 2, 3, 4, 5], "s": "Hello, World", "d": {"b": 1, "a": "x", "c": None}, "n": None, "f": 2.5, "t": True, "e": [],
         "ms": [{"role": "user", "content": "hi", "n": 3}, {"role": "assistant", "content": "yo", "n": 1}, {"role": "user", "content": "b"}],
         "u": "é日😀", "nested": {"k": [{"a": 1.0, "b": [True, None, "q\"'\n"]}]}}
    t = [
        "{{ s }}", "{{ xs }} {{ d }} {{ n }} {{ f }} {{ t }} {{ e }} {{ nested }}", "{{ missing }}|{{ d.zzz }}|{{ xs[9] }}", "{{ missing.x }}", "{{ n.x.y }}",
        "{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7.5 % 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }}",
        "{{ 1 / 0 }}", "{{ 'a' + 1 }}", "{{ 'a' ~ 1 ~ n ~ t ~ missing }}", "{{ 'ab' * 3 }} {{ [1] * 2 }} {{ 3 * 'x' }} {{ [1] + [2] }} {{ true + 1 }}",
        "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ n == none }} {{ missing == missing2 }}",
        "{{ 1 < 'a' }}", "{{ 'a' in s }} {{ 'H' in s }} {{ 2 in xs }} {{ 9 not in xs }} {{ 'a' in d }} {{ 'x' in missing }}", "{{ 1 in 2 }}", "{{ 'a' in n }}",
        "{{ not t }} {{ not not t }} {{ t and f }} {{ n or 'z' }} {{ e and 1 }} {{ not n is none }} {{ not 'a' in s }}", "{{ 'b' if t else 'c' }} {{ ('b' if n else 'c') }} {{ 'b' if n }} {{ 1 if n else 2 if n else 3 }}",
        "{{ xs[0] }} {{ xs[-1] }} {{ xs[1:3] }} {{ xs[::-1] }} {{ xs[:-1] }} {{ xs[::2] }} {{ xs[4:1:-2] }} {{ xs[10:] }} {{ s[1:4] }} {{ s[::-1] }} {{ u[1] }} {{ u[-1:] }}", "{{ xs[1:2:0] }}",
        "{{ d.a }} {{ d['b'] }} {{ d.items() | list }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.get('a') }} {{ d.get('q') }} {{ d.get('q', 7) }}",
        "{{ {'a': 1, 'b': [1, 2], 3: 'c'} }} {{ {} }} {{ [] }} {{ () }} {{ (1,) }} {{ (1, 2) }} {{ [1, 'a', none, true,] }} {{ {'a': 1,} }}", "{{ 1, 2 }}",
        "{{ 'a' 'b' \"c\" }} {{ 'it\\'s' }} {{ 'a\\nb\\tc\\\\d\\x41\\u00e9\\U0001F600\\q\\101' }}", "{{ 0x1F }} {{ 1_000 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1.0 }} {{ 100000000000000000.0 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 123456789012345.0 }} {{ 0.0001 }} {{ 0.00001 }}",
        "{% set x = 1 %}{{ x }}{% set x = x + 1 %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = [3, 4] %}{{ c }}{{ d2 }}", "{% set a, b = [1] %}",
        "{% set x %}  a{{ 1 }} {% endset %}[{{ x }}]", "{% set x | trim | upper %}  a {% endset %}[{{ x }}]", "{% set ns = namespace(a=1, b='x') %}{% for i in xs %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}",
        "{% set q.a = 1 %}", "{% for i in xs %}{% set y = i %}{% endfor %}{{ y }}", "{% set y = 0 %}{% for i in xs %}{{ y }}{% set y = y + i %}{{ y }} {% endfor %}{{ y }}", "{% if t %}{% set y = 5 %}{% endif %}{{ y }}",
        "{% for i in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a','b') }}{{ loop.depth }};{% endfor %}",
        "{% for i in xs if i % 2 %}{{ i }}{{ loop.length }}{{ loop.last }}{% else %}none{% endfor %}", "{% for i in e %}x{% else %}none{% endfor %}", "{% for i in missing %}x{% else %}none{% endfor %}", "{% for i in n %}{% endfor %}", "{% for i in 5 %}{% endfor %}",
        "{% for k, v in d.items() %}{{ k }}={{ v }} {% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'añ' %}{{ c }}.{% endfor %}", "{% for k, v in d | items %}{{ k }}={{ v }} {% endfor %}{% for k, v in d | dictsort %}{{ k }}={{ v }} {% endfor %}", "{% for a, b in xs %}{% endfor %}",
        "{% for i in xs %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in xs %}{% for j in xs %}{{ loop.index }}{% if j == 2 %}{% break %}{% endif %}{% endfor %}{{ loop.index }}{% endfor %}", "{% for i in [1, 2], [3] %}{{ i }}{% endfor %}", "{% for i in (xs if t else e) %}{{ i }}{% endfor %}",
        "{% if n %}a{% elif t %}b{% else %}c{% endif %}{% if n %}a{% elif n %}b{% else %}c{% endif %}{% if e %}x{% endif %}", "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(c='q', a=0) }}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(q=2) }}",
        "{% macro f(i) %}{% if i > 0 %}{{ i }}{{ f(i - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% set g = 3 %}{% macro m() %}{{ g }}{{ s }}{% endmacro %}{{ m() | upper }}", "{% macro m(x) %}{% set g = x %}{{ g }}{% endmacro %}{{ m(1) }}{{ g }}", "{{ undefinedfn(1) }}", "{{ s() }}",
        "{{ '  a b ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ n | trim }}", "{{ d | tojson }} {{ nested | tojson }} {{ u | tojson }} {{ '</a>&' | tojson }} {{ 1.0 | tojson }} {{ xs | tojson }}", "{{ nested | tojson(indent=2) }}", "{{ d | tojson(sort_keys=true, separators=(',', ':')) }}{{ u | tojson(ensure_ascii=true) }}", "{{ {} | tojson(indent=2) }}{{ [] | tojson(indent=2) }}{{ '\\x7f\\x01' | tojson }}", "{{ missing | tojson }}",
        "{{ s | length }}{{ u | length }}{{ xs | count }}{{ d | length }}{{ missing | length }}", "{{ 5 | length }}", "{{ xs | join }}{{ xs | join('-') }}{{ ms | join(',', attribute='role') }}{{ 'abc' | join('.') }}{{ d | join }}", "{{ missing | default('z') }}{{ n | default('z') }}{{ n | default('z', true) }}{{ '' | d('q', boolean=true) }}{{ missing | default }}",
        "{{ s | upper }}{{ s | lower }}{{ 'ßé' | upper }}{{ 'hello wORLD they\\'re a-b (c' | title }}{{ 'hELLO' | capitalize }}{{ 'they\\'re x1y' .title() }}{{ 'éa B'.capitalize() }}", "{{ xs | first }}{{ xs | last }}{{ e | first }}{{ s | first }}{{ s | last }}", "{{ s | list }}{{ d | list }}{{ missing | list }}", "{{ 5 | string ~ 'a' }}{{ xs | string }}{{ true | string }}",
        "{{ '12' | int }}{{ '12.7' | int }}{{ 'x' | int }}{{ 'x' | int(3) }}{{ 4.9 | int }}{{ -4.9 | int }}{{ '0x1f' | int(base=16) }}{{ n | int }}{{ '1.5' | float }}{{ 'q' | float }}{{ 2 | float }}", "{{ s | replace('l', 'L') }}{{ s | replace('l', 'L', 2) }}{{ s.replace('o', '0', 1) }}{{ 'ab'.replace('', '-') }}", "{{ ms | map(attribute='role') | list }}{{ ms | map(attribute='n', default=0) | list }}{{ ['a', 'b'] | map('upper') | join }}{{ ['a '] | map('replace', 'a', 'b') | list }}", "{{ ms | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }}{{ ms | rejectattr('n') | list | length }}{{ ms | selectattr('n', 'defined') | list | length }}{{ xs | select('odd') | list }}{{ xs | reject('gt', 2) | list }}{{ [0, 1, ''] | select | list }}",
        "{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb\\n\\nc' | indent(2, true) }}|{{ 'a\\n\\nc' | indent(2, blank=true) }}|{{ 'a\\nb' | indent('> ') }}|{{ 'a\\n' | indent }}", "{{ ['b', 'A', 'c'] | sort }}{{ ['b', 'A', 'c'] | sort(case_sensitive=true) }}{{ xs | sort(reverse=true) }}{{ ms | sort(attribute='role') | map(attribute='content') | list }}{{ ['a', 'A', 'b'] | unique | list }}", "{{ [1, 'a'] | sort }}", "{{ xs | sum }}{{ xs | min }}{{ xs | max }}{{ xs | reverse | list }}{{ 'abc' | reverse }}{{ -3 | abs }}{{ 2.567 | round(1) }}{{ 2.5 | round }}{{ 3.2 | round(method='ceil') }}",
        "{{ missing is defined }}{{ s is defined }}{{ missing is undefined }}{{ n is none }}{{ s is string }}{{ d is mapping }}{{ xs is mapping }}{{ s is iterable }}{{ 5 is iterable }}{{ xs is sequence }}{{ d is sequence }}{{ 5 is number }}{{ true is number }}{{ true is boolean }}{{ t is true }}{{ t is false }}{{ 1 is true }}{{ 5 is integer }}{{ true is integer }}{{ f is float }}{{ missing is iterable }}", "{{ 5 is odd }}{{ 5 is even }}{{ 6 is divisibleby 3 }}{{ 6 is divisibleby(4) }}{{ 5 is eq 5 }}{{ 5 is ne(5) }}{{ 5 is gt 3 }}{{ 5 is le 3 }}{{ 2 is in xs }}{{ 2 is not in xs }}{{ s is not string }}{{ 'a' is lower }}{{ 'A' is upper }}{{ n is sameas none }}{{ 'trim' is filter }}{{ 'zz' is test }}",
        "{{ s.startswith('He') }}{{ s.startswith(('x', 'He')) }}{{ s.endswith('ld') }}{{ '  a '.strip() }}|{{ '--a-'.lstrip('-') }}{{ '--a-'.rstrip('-') }}{{ s.split(', ') }}{{ ' a  b '.split() }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ ' a b c '.split(none, 1) }}", "{{ s.upper() }}{{ s.lower() }}{{ '-'.join(['a', 'b']) }}{{ s.find('o') }}{{ s.rfind('o') }}{{ s.find('zz') }}{{ s.count('l') }}{{ 'a\\nb\\r\\nc'.splitlines() }}{{ '12'.isdigit() }}{{ 'a1'.isalpha() }}{{ 'a'.islower() }}{{ 'xab'.removeprefix('x') }}{{ 'abx'.removesuffix('x') }}{{ 'a{}b{}{{'.format(1, 'q') }}{{ '{x}{0}'.format(5, x=6) }}", "{{ '-'.join([1]) }}", "{{ s.nomethod() }}", "{{ xs.append(1) }}", "{{ xs.index(3) }}{{ xs.count(3) }}",
        "{{ range(3) | list }}{{ range(1, 7, 2) | list }}{{ range(3, 0, -1) | list }}", "{{ range(1000000) | list }}", "{{ dict(a=1, b=2) }}", "{{ raise_exception('no!') }}", "{% raw %} {{ x }} {% if %} {% endraw %}|", "a{%- raw -%}  {{ x }}  {%- endraw -%}  b", "{# comment #}a{#- c -#} b {# {{ x }} #}\nc", "{% generation %}a{% set z = 1 %}{{ z }}{% endgeneration %}{{ z }}",
        "{{ 'a' if missing is defined and missing.x else 'b' }}", "{{ (1 + 2) * 3 }}{{ -(1) }}{{ - 1 | abs }}{{ 1 - -1 }}{{ +1 }}", "{{ d.a.b }}", "{{ d.a.b.c }}", "{{ xs.0 }}{{ nested.k.0.a }}", "{{ {'a': {'b': 1}}.a.b }}{{ [1, 2][0] }}{{ 'abc'[1] }}{{ ({'a': 1}) }}", "{{ {'a': {'b': {}}} }}",
        "{{ nofilter | zzz }}", "{{ s is zzz }}", "{% zzz %}", "{% if x %}", "{{ s ", "{{ s }", "{% for x in xs %}{% endif %}", "{{ (1 }}", "{{ 1 + }}", "{{ }}", "{% set %}", "{% endif %}", "{{ 'a }}", "{# a", "{{ a b }}", "{{ [1, 2 }}", "{{ .a }}", "{{ a. }}", "{{ | upper }}", "{% break %}", "{% macro %}", "{{ $ }}",
        "{{ s | trim | upper | replace('L', 'x') | length }}", "{{ not t == true }}", "{{ 1 == 2 or 3 == 3 }}", "{{ ms[0]['role'] == 'user' and ms[-1].content in ['a', 'b'] }}", "{{ ms | length - 1 }}", "{{ (ms | length) - 1 }}", "{{ 'a' ~ 'b' | upper }}", "{{ 'x' if 1 is odd else 'y' }}", "{{ [xs | first, d | length] }}", "{{ none }}{{ None }}{{ True }}{{ false }}",
        "{{ s\n   | upper }}", "{%\n set x = 1\n%}{{ x }}", "{{ \"a\nb\" }}", "a\n", "a\n\n", "\n\na", "{{ 1 }}\n{{ 2 }}\n", "  {% if t %}  \n  a\n  {% endif %}  \n b", "  {{ 1 }}  \n", "x {% if t %} y {% endif %} z", "{%- if t -%}  \n a \n {%- endif -%}  \n", "  {%+ if t %}a{% endif +%}\n b", "\t{% if t %}\n\ta{% endif %}\n", "a\r\n{% if t %}\r\nb{% endif %}\r\n", " {# c #}\n a", "a {#- c #}\n b", "{{- ' x ' -}}  y", "  {{- 1 }} {{ 2 -}}  3", "{% if t %}\n\n a{% endif %}", "{% set x = 1 %}\n{% set y = 2 %}\n\n{{ x + y }}\n",
        "{{ d.items is callable }}", "{{ dict(d, z=1) | tojson }}", "{{ n ~ '' }}{{ '' ~ 1.50 }}", "{{ 'a' == 'a' == true }}", "{{ xs == [1, 2, 3, 4, 5] }}{{ (1, 2) == [1, 2] }}{{ {'a': 1} == {'a': 1.0} }}",
        "{{ 'é' < 'z' }}{{ 'Z' < 'a' }}", "{{ 5 // 0 }}", "{{ 10 ** 3 }}", "{{ 7 / 2 }}{{ 6 / 2 }}{{ 1 / 3 }}", "{{ 5.0 // 2 }}{{ -5.5 // 2 }}{{ 2 * 0.1 }}", "{{ '%' }}{{ '}}' }}{{ '{%' }}{{ '#}' }}", "{% if '%}' == '%}' %}y{% endif %}",
        "{{ 'don\\'t' ~ [\"don't\", 'say \"x\"', 'both \\' \"'] }}", "{{ [1.0, 1e20, 'é', '\\n', '\\x00', '\\u200b'] }}", "{% set x = {'a': [1, {'b': none}]} %}{{ x }}{{ x | tojson }}", "{% for m in ms %}{{ m.role }}:{{ m['content'] }}{% if not loop.last %},{% endif %}{% endfor %}",
    ]
    t += empties() + unknown() + filter_blocks() + safe()
    return [(x, v) for x in t]


def empties():
    """select, map and similar filters: a false value counts as an empty sequence, results are iterators."""
    return [
        "{{ none | select | list }}{{ none | selectattr('a') | list }}{{ none | reject('odd') | list }}{{ none | rejectattr('a') | list }}{{ none | map('upper') | list }}{{ none | map(attribute='x') | list }}",
        "{{ 0 | select | list }}{{ false | map('upper') | list }}{{ '' | select | list }}{{ 0.0 | map(attribute='x') | list }}{{ missing | select | list }}{{ missing | map('upper') | list }}",
        "{{ 5 | select | list }}", "{{ true | map('upper') | list }}", "{{ none | select('nosuch') | list }}{{ [] | map('nosuch') | list }}{{ none | map | list }}{{ none | selectattr | list }}",
        "{{ [1] | select('nosuch') | list }}", "{{ [1] | map('nosuch') | list }}", "{{ [1] | map | list }}",
        "{% for m in none | selectattr('role', 'equalto', 'user') %}{{ m }}{% else %}no{% endfor %}{% for m in ms | selectattr('role', 'equalto', 'user') %}{{ m.content }}{{ loop.index }}{% endfor %}",
        "{% if none | select %}t{% else %}f{% endif %}{% if [] | selectattr('a') %}t{% else %}f{% endif %}{% if [] | map('upper') %}t{% else %}f{% endif %}{% if [] | unique %}t{% else %}f{% endif %}{% if [] | reverse %}t{% else %}f{% endif %}{% if {} | items %}t{% else %}f{% endif %}{% if '' | reverse %}t{% else %}f{% endif %}",
        "{{ xs | select | first }}{{ xs | map('string') | join('-') }}{{ xs | map('string') | sort }}{{ xs | select | sum }}{{ xs | select | max }}{{ 3 in (xs | select) }}{{ (xs | select)[0] }}",
        "{{ xs | select is iterable }}{{ xs | select is sequence }}{{ xs | select == xs }}{{ xs | reverse is iterable }}",
        "{% set g = xs | select %}{{ g | list }}{{ g | list }}", "{% set g = xs | reverse %}{{ g | first }}{{ g | first }}{{ 3 in g }}{{ g | list }}", "{% set g = d | items %}{% for k, v in g %}{{ k }}{% endfor %}{% for k, v in g %}{{ k }}{% endfor %}",
        "{{ xs | select | length }}", "{{ xs | select | last }}", "{{ xs | reverse | last }}", "{{ xs | reverse | length }}", "{{ xs | select | tojson }}", "{{ (xs | select) + [1] }}", "{{ (xs | select)[1:] }}",
        "{{ none | list }}", "{{ none | sort }}", "{{ none | join }}", "{{ none | unique | list }}", "{{ none | length }}", "{{ none | items | list }}", "{{ none | first }}", "{{ none | sum }}", "{{ none | min }}", "{{ none | reverse }}", "{{ none | dictsort }}",
        "{{ missing | sum }}{{ missing | unique | list }}{{ missing | sort }}{{ missing | join }}{{ missing | first }}{{ missing | items | list }}", "{{ xs | sum(start='') }}", "{{ ['a'] | sum(start='') }}",
    ]


def unknown():
    """Unknown filters and tests: Jinja compiles them and fails only if it evaluates them."""
    return [
        "{{ xs | zzz }}", "{% if t %}{{ 1 }}{% else %}{{ xs | zzz }}{% endif %}", "{% if t %}{{ 1 | zzz }}{% endif %}", "{% for i in e %}{% if i %}{{ i | zzz }}{% endif %}{% endfor %}ok",
        "{% macro m(a) %}{% if a %}{{ a | zzz(1, b=2) | upper }}{% endif %}{% endmacro %}{{ m(0) }}ok", "{{ 1 if t else (1 | zzz) }}", "{{ 'a' if 1 is zzz else 'b' }}", "{{ 1 if t else (1 is zzz) }}",
        "{% if n %}{{ 1 is zzz 5 }}{{ 1 is not zzz(5) }}{% endif %}ok", "{% if n is zzz %}{% endif %}ok", "{% if n and (n | zzz) %}{% endif %}ok", "{{ 1 if n and (n | zzz) else 2 }}ok",
    ]


def filter_blocks():
    return [
        "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter trim | upper | replace('A', 'b') %} a{{ 1 }} {% endfilter %}", "a {%- filter indent(2, true) -%}  b\nc {%- endfilter %} d", "{% filter upper %}{% set y = 1 %}a{{ y }}{% endfilter %}{{ y }}",
        "{% for i in xs %}{% filter upper %}a{{ i }}{{ loop.last }}{% endfilter %}{% endfor %}", "{% for i in xs %}{% filter upper %}{% if i == 3 %}{% break %}{% endif %}a{{ i }}{% endfilter %}{% endfor %}",
        "{% set x = 3 %}{% filter upper %}{% set x = x + 1 %}{{ x }}b{% endfilter %}{{ x }}", "{% filter upper %}a{% filter lower %}B{{ s }}{% endfilter %}{% endfilter %}", "{% generation %}{% filter upper %}g{% endfilter %}{% endgeneration %}",
        "{% filter escape %}a<{{ '<' | safe }}{% endfilter %}{% filter safe %}<a{% endfilter %}", "{% filter length %}abc{% endfilter %}", "{% filter list %}abc{% endfilter %}", "{% filter zzz %}a{% endfilter %}",
        "{% filter %}a{% endfilter %}", "{% filter upper %}a", "{% filter 'a' %}a{% endfilter %}", "{% endfilter %}",
    ]


def safe():
    """Markup, the result of safe and escape, and operations that join it with other text."""
    return [
        "{{ ('<a>' | safe) + '<b>' }}|{{ '<b>' + ('<a>' | safe) }}|{{ ('<a>' | safe) ~ '<b>' }}|{{ '<a>' | e }}|{{ '<a>' | e | e }}|{{ '<a>' | safe | e }}|{{ 'x<' ~ ('<a>' | e) }}|{{ ('<' | e) + '<' }}|{{ ('<' | safe) + ('>' | safe) }}",
        "{{ '<args>' + (d | tojson | safe) + '</args>' }}{% set a = ms[0].content | tojson | safe %}{{ '\"' ~ a ~ '\"' }}{{ a + '\"' }}",
        "{{ ('<a>' | safe).format('<b>') }}{{ ('{}<' | safe).format('<b>') }}{{ ('{}<' | safe).format('<b>' | safe) }}{{ '{}<'.format('<b>' | safe) }}{{ ('{}' | safe).format(1) }}{{ ('{a}' | safe).format(a='<') }}{{ ('{0}' | safe).format(['<']) + '<' }}",
        "{{ ('<' | safe).join(['<a>', 'b>' | safe, 1]) }}{{ '<'.join(['<a>' | safe, '<b>']) + '<c>' }}{{ ('Q' | safe).join('ab') + '<' }}{{ '-'.join('ab' | safe) }}", "{{ ['<a>', '<b>' | safe] | join('<' | safe) }}|{{ ['<a>', '<b>' | safe] | join('<') + '<' }}",
        "{{ ['<' | safe, ('<' | safe) + '<', n | safe, 1 | safe, missing | safe, n | e, missing | e, 'it\\'s' | safe] }}", "{{ (xs | safe) + '<' }}{{ (d | tojson | safe) + '<\"' }}{{ (d | tojson) + '<\"' }}{{ '<\"é' | safe | tojson }}{{ ['<' | safe] | tojson }}{{ {'<' | safe: 1} | tojson }}",
        "{{ ('<' | safe).upper() + '<' }}{{ ('<' | safe | upper) + '<' }}{{ ('<' | safe | lower) + '<' }}{{ ('<' | safe | title) + '<' }}{{ ('<' | safe | capitalize) + '<' }}{{ ('<' | safe | trim) + '<' }}{{ (' <' | safe).strip() + '<' }}{{ ('<' | safe | string) + '<' }}{{ ('<' | safe | replace('x', 'y')) + '<' }}{{ ('<x' | safe).replace('x', '<') + '<' }}{{ ('<' | safe).replace('<', 'y<') }}",
        "{{ ('<a\n<b' | safe | indent) + '<' }}|{{ '<a\n<b' | safe | indent('>') }}|{{ '<a\n<b' | safe | indent('>', true) }}", "{{ ('a<b<' | safe).split('<') }}{{ ('a<b' | safe).split('<')[0] + '<' }}{{ ('a\nb' | safe).splitlines() }}{{ ('a<b<' | safe).rsplit('<', 1) }}{{ 'a<b'.split('<' | safe) }}{{ ('a,b' | safe).split(',') | join('<') }}",
        "{{ ('<a' | safe)[0] + '<' }}{{ ('<a' | safe)[:1] + '<' }}{{ ('<a' | safe | first) + '<' }}{{ ('<a' | safe | last) + '<' }}{{ '<a' | safe | list }}{{ ('<a' | safe | reverse) + '<' }}{% for c in 'ab<' | safe %}{{ c + '<' }}{% endfor %}", "{{ ('<' | safe) * 2 + '<' }}{{ 2 * ('<' | safe) + '<' }}",
        "{{ ('<' | safe) == '<' }}{{ ('<' | safe) != '<' }}{{ ('<' | safe) in ['<'] }}{{ '<' in ('<' | safe) }}{{ ('<' | safe) in 'a<' }}{{ ('a' | safe) < 'b' }}{{ {'a': 1}['a' | safe] }}{{ d['a' | safe] }}{{ d.get('a' | safe) }}{{ ('a' | safe) in d }}{{ {('a' | safe): 1} }}{{ {('a' | safe): 1}.a }}{{ ['a'].index('a' | safe) }}{{ [['a' | safe]] == [['a']] }}",
        "{{ ('<' | safe) is string }}{{ ('<' | safe) is sequence }}{{ ('<' | safe) is iterable }}{{ ('<' | safe) is mapping }}{{ ('a' | safe) is lower }}{{ ('a' | safe) is escaped }}{{ 'a' is escaped }}{{ 5 is escaped }}{{ ('a' | safe) is eq 'a' }}{{ ('a' | safe) is in ['a'] }}{{ ('trim' | safe) is filter }}{{ 'a' is in ('ab' | safe) }}",
        "{{ ['<' | safe, '<', 'b' | safe, 'a'] | unique | list }}{{ ['b' | safe, 'a'] | sort }}{{ ['b' | safe, 'a'] | min }}{{ ['<' | safe] | map('upper') | list }}{{ ['<', '>'] | map('safe') | list }}{{ ['<', '>'] | map('e') | join }}", "{{ ms | selectattr('n' | safe) | list | length }}{{ ms | map(attribute='role' | safe) | list }}{{ xs | select('odd' | safe) | list }}{{ ['a'] | map('upper' | safe) | list }}",
        "{{ ('12' | safe | int) + 1 }}{{ ('1.5' | safe | float) + 1 }}{{ 'ab' | safe | length }}{{ ('<' | safe | default('x')) + '<' }}{{ (missing | default('<' | safe)) + '<' }}{{ ('' | safe | default('<', true)) + '<' }}",
        "{% set x %}<{{ 'a<' | safe }}{% endset %}{{ x + '<' }}{% set x | safe %}<{% endset %}{{ x + '<' }}{% macro m(a) %}{{ a }}<{% endmacro %}{{ m('<' | safe) + '<' }}{{ m('<') + ('>' | safe) }}", "{% set ns = namespace(x='' | safe) %}{% set ns.x = ns.x + '<a>' %}{% set ns.x = ns.x + '&' %}{{ ns.x }}",
        "{{ ('<' | safe).startswith('<') }}{{ 'ab'.startswith(('x', 'a' | safe)) }}{{ 'ab'.endswith('b' | safe) }}{{ ('<a' | safe).removeprefix('<') + '<' }}{{ ('<a' | safe).find('a') }}{{ 'ab'.find('b' | safe) }}{{ ('<a' | safe).count('<') }}{{ ('<a' | safe).title() + '<' }}{{ ('<a' | safe).lstrip('<') + '<' }}{{ ('a' | safe).capitalize() + '<' }}{{ 'a'.replace('a' | safe, '<' | safe) + '<' }}{{ ('a' | safe).isalpha() }}{{ 'xax' | trim('x' | safe) }}",
        "{% if '' | safe %}a{% endif %}{{ ('<' | safe) and '<' }}{{ not ('' | safe) }}{{ ('' | safe) or 'z' }}{{ (('<' | safe) if t) + '<' }}", "{{ strftime_now('%%' | safe) }}{{ dict(a='<' | safe) }}{{ dict(a='<' | safe).a + '<' }}{% for k, v in {'a': '<' | safe} | items %}{{ v + '<' }}{% endfor %}", "{{ raise_exception('<' | safe) }}",
        "{{ ('<' | safe) + 1 }}", "{{ 1 + ('<' | safe) }}", "{{ ('<' | safe) + none }}", "{{ ('<' | safe) + missing }}", "{{ missing + ('<' | safe) }}", "{{ [1] + ('<' | safe) }}", "{{ ('<' | safe) < 1 }}", "{{ ['<' | safe, '<'] | sum(start='' | safe) }}", "{{ '-'.join(['a' | safe, 1]) }}",
        "{{ 5 | e }}{{ xs | e }}{{ (5 | e) + '<' }}{{ ['<'] | e }}{{ \"'\\\"&<>\" | e }}", "{{ ('<a' | safe | upper | trim | safe) + '<' }}{{ ('b' | safe) ~ '' == 'b' }}{{ (('<' | safe) ~ '') + '<' }}",
    ]


def random_whitespace(n=200):
    """Templates of tags, text and white space only."""
    rng = random.Random(3)
    blanks = ["", " ", "  ", "\n", "\n\n", " \n", "\n ", " \n  ", "\t", "\n\t\n"]
    signs = ["", "", "", "-", "-", "+"]

    def tag(inner):
        return "{%" + rng.choice(signs) + " " + inner + " " + rng.choice(signs) + "%}"

    def piece(depth):
        k = rng.randrange(7 if depth < 3 else 5)
        if k < 2:
            return rng.choice(["a", "b c", "x\n", "\ny", "{", "}", "%"])
        if k == 2:
            return "{{" + rng.choice(["", "-", "+"]) + " 'v' " + rng.choice(["", "-"]) + "}}"
        if k == 3:
            return "{#" + rng.choice(signs) + " c " + rng.choice(signs) + "#}"
        if k == 4:
            return tag("set q = 1")
        if k == 5:
            return tag("if true") + body(depth + 1) + tag("endif")
        return tag("for i in [1, 2]") + body(depth + 1) + tag("endfor") if rng.random() < 0.8 else tag("raw") + rng.choice(blanks) + "{{" + rng.choice(blanks) + tag("endraw")

    def body(depth):
        return "".join(rng.choice(blanks) + piece(depth) for _ in range(rng.randint(0, 4))) + rng.choice(blanks)

    return [(body(0), {}) for _ in range(n)]


def render(src, variables):
    try:
        return {"out": _compile_jinja_template(src).render(**variables)}
    except Exception as e:  # the Go code may fail with another kind of error
        return {"error": type(e).__name__}


def write(name, obj):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        json.dump(obj, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


def main():
    write("micro.json", {"vars": micro()[0][1], "cases": [{"src": s, **render(s, v)} for s, v in micro()],
                         "whitespace": [{"src": s, **render(s, v)} for s, v in random_whitespace()]})
    if len(sys.argv) == 1:
        return
    folder, gguf_file = sys.argv[1:]
    from gguf import GGUFReader

    fields = GGUFReader(gguf_file).fields["tokenizer.chat_template"]
    models = {}
    for n in NAMES:
        with open(os.path.join(folder, n, "tokenizer_config.json"), encoding="utf-8") as f:
            config = json.load(f)
        vocab = {"llama3": "llama3_2", "qwen2_5": "qwen3"}.get(n, n)  # a model with the same vocabulary except for added tokens
        tok = PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, vocab, "tokenizer.json"))
        models[n] = (config["chat_template"], {k: config[k] for k in ("bos_token", "eos_token", "pad_token") if config.get(k)}, tok)
    models["smollm2"] = (bytes(fields.parts[fields.data[0]]).decode(), {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}, None)
    out = {}
    for n, (src, variables, tok) in models.items():
        rows = []
        variables = {**variables, "date_string": "26 Jul 2024"}
        for name, messages in CONVERSATIONS.items():
            for prompt in (False, True):
                row = {"name": name, "messages": messages, "prompt": prompt}
                row.update(render(src, {**variables, "messages": messages, "add_generation_prompt": prompt, "tools": None, "documents": None}))
                if tok and "out" in row:
                    row["ids"] = tok(row["out"], add_special_tokens=False)["input_ids"]
                rows.append(row)
        row = {"name": "tools", "messages": CONVERSATIONS["system user"], "prompt": True, "tools": TOOLS}
        row.update(render(src, {**variables, "messages": row["messages"], "add_generation_prompt": True, "tools": TOOLS, "documents": None}))
        rows.append(row)
        out[n] = rows
    write("models.json", out)


if __name__ == "__main__":
    main()
