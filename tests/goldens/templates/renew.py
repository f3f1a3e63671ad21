#!/usr/bin/env python3
"""Renews snippets.json and the references of the demo model's template: what Jinja2, set up as Hugging Face does, makes
of them. The other templates here and their references, as well as cases.json, are copies of shared/templates.

    pip install jinja2==3.1.6 && python3 renew.py
"""
import datetime
import json
import os

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

CONTEXT = {
    "s": "Hello World",
    "u": "日本語 é🚀",
    "sp": "  pad \n",
    "multi": "one\ntwo\n\nthree",
    "n": 7,
    "neg": -3,
    "f": 2.5,
    "big": 1e21,
    "tiny": 0.00001234,
    "one": 1.0,
    "t": True,
    "no": False,
    "nil": None,
    "empty": "",
    "l": [3, 1, 2],
    "ls": ["b", "A", "c", "a"],
    "el": [],
    "d": {"b": 1, "a": 2, "C": 3},
    "ed": {},
    "nested": {"x": {"y": [1, {"z": "deep"}]}, "items": "key named items", "get": 5},
    "msgs": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yo", "tool_calls": [{"id": "1"}]},
        {"role": "user", "content": "bye"},
    ],
    "html": "<a href=\"x\">'&'</a>",
    "esc": "q\"b\\s/n\nt\tr\r\b\f\x01\x7f\u2028é",
    "think": "<think>\nab\n</think>\n\nc",
}

SNIPPETS = r"""
plain text
{{ s }}
{{ undefined_thing }}|
{{ n }} {{ neg }} {{ f }} {{ big }} {{ tiny }} {{ one }} {{ t }} {{ no }} {{ nil }}
{{ l }} {{ d }} {{ (1, 'a') }} {{ (1,) }} {{ () }} {{ [] }} {{ {} }}
{{ ["it's", 'q"', 'n\n', 'é', '\x07', "both'\""] }}
{{ [1.0, none, true, [1, [2]], {'k': (1, 2)}] }}
{{ 1 + 2 * 3 - 4 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }}
{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 100000000000000000.0 }} {{ 1e16 }} {{ 123456789012345.6 }}
{{ 0.1 + 0.2 }} {{ 1 / 3 }} {{ 10 / 5 }} {{ true + true }} {{ 3 * true }}
{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ -n|abs }} {{ (-n)|abs }} {{ +n }} {{ - - n }}
{{ 1_000 + 0x1F + 0b11 + 0o17 }}
{{ 'a' 'b' "c" }}
{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ 'x' * 0 }} {{ [1] + [2] }} {{ [1, 2] * 2 }} {{ (1,) + (2,) }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ undefined_thing ~ [1] }}
{{ 'tab\there\\ \'q\' \x41\u00e9\101 \q' }}
{{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' == 'a' }} {{ none == none }} {{ [1, 2] == [1, 2] }} {{ (1,) == [1] }} {{ {'a': 1} == {'a': 1.0} }}
{{ 1 != 2 }} {{ 1 < 2 }} {{ 'a' < 'b' }} {{ 'Z' < 'a' }} {{ [1, 2] < [1, 3] }} {{ 2 >= 2 }} {{ 3 <= 2.5 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1 != 2 }}
{{ undefined_a == undefined_b }} {{ undefined_a == none }} {{ undefined_a != 1 }}
{{ 'ell' in s }} {{ 1 in l }} {{ 'a' in d }} {{ 'x' not in d }} {{ 'a' in undefined_thing }} {{ none in [none] }} {{ '' in s }}
{{ not 1 in l }} {{ not n == 7 }} {{ not true or true }}
{{ 1 and 0 }} {{ 0 or 'x' }} {{ '' or none }} {{ 'a' and 'b' }} {{ undefined_thing or 'dflt' }} {{ 1 and undefined_thing }}|
{{ 'yes' if n > 5 else 'no' }} {{ 'yes' if n > 50 }}| {{ 1 if false else 2 if false else 3 }}
{{ (1 if t else 2) + 10 }} {{ [1 if no else 2, 3] }}
{{ s[0] }} {{ s[-1] }} {{ s[1:3] }} {{ s[:-3] }} {{ s[::-1] }} {{ s[::2] }} {{ s[100:] }}| {{ s[3:1] }}| {{ s[-100:2] }}
{{ u[0] }} {{ u[-1] }} {{ u[1:3] }} {{ u[::-1] }} {{ u|length }} {{ u[4:] }}
{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ l[5:] }} {{ l[:-1] }} {{ l[-2:] }} {{ (1, 2, 3)[1:] }}
{{ l[10] }}| {{ l['x'] }}| {{ d['zz'] }}| {{ d.zz }}| {{ s.nope }}| {{ n.x }}| {{ nil.x }}|
{{ nested.x.y[1].z }} {{ nested['x']['y'][0] }} {{ nested.x.y.1.z }}
{{ nested['items'] }} {{ nested.get('x') is mapping }} {{ nested['get'] }} {{ nested.items is string }} {{ nested.items()|list|length }}
{{ d.get('a') }} {{ d.get('zz') }} {{ d.get('zz', 5) }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.items()|list }}
{{ d.items() }} {{ d.keys() }} {{ d.values() }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }}{% endfor %}{% for c in 'abc' %}[{{ c }}]{% endfor %}{% for x in undefined_thing %}no{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.depth }} {% endfor %}
{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}
{% for x in el %}x{% else %}none{% endfor %}{% for x in l %}{{ x }}{% else %}none{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}
{% for x in l if x > 10 %}x{% else %}none{% endfor %}
{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for a, b in [(1, 2), [3, 4]] %}{{ a }}-{{ b }} {% endfor %}{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for x in nested.x.y recursive %}{% if x is mapping %}{{ x.z }}{{ loop.depth }}{% elif x is iterable %}{{ loop(x) }}{% else %}{{ x }}{% endif %}{% endfor %}
{% for x in [[1, [2]], 3] recursive %}{{ loop.depth0 }}{% if x is sequence %}<{{ loop(x) }}>{% else %}{{ x }}{% endif %}{% endfor %}
{% for i in range(3) %}{{ i }}{% endfor %} {{ range(2, 5)|list }} {{ range(5, 0, -2)|list }} {{ range(3)[1] }} {{ range(4)|length }} {{ range(0)|list }}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}
{% set ns = namespace(x=1, y='a') %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.zz }}|
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}
{% if true %}{% set inner = 5 %}{% endif %}{{ inner }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}
{% set block %}text {{ n }}{% endset %}[{{ block }}]{% set up | upper %}abc{% endset %}{{ up }}
{% set x %}a{% set y = 5 %}{{ y }}{% endset %}{{ x }}{{ y }}|
{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}|
{% filter upper %}abc{{ s }}{% endfilter %}{% filter replace('a', 'b')|upper %}aaa{% endfilter %}
{% macro m(a, b='dflt', c=none) %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(a=1, c=3) }}{{ m() }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}
{% macro fact(k) %}{% if k <= 1 %}1{% else %}{{ k }}*{{ fact(k - 1) }}{% endif %}{% endmacro %}{{ fact(5) }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}
{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body {{ n }}{% endcall %}
{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) m() %}{{ a }}+{{ b }}{% endcall %}
{% for x in l %}{% macro m() %}{{ x is defined }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m() %}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}
{% macro m() %}{{ i is defined }}{% endmacro %}{% for i in l %}{{ m() }}{% endfor %}
{% macro outer() %}{% macro inner() %}in{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner is defined }}
{{ m is defined }}{% macro m() %}{% endmacro %}{{ m is defined }}{{ m is callable }}{{ m() is string }}
{% generation %}gen {{ n }}{% endgeneration %}
{% raw %}{{ not }} {% this %}{% endraw %}|{%- raw -%}  x  {%- endraw -%}|
a {# comment #} b {#- stripped -#} c
{{ "{{ literal }}" }} {{ '{%' }} {{ {'a': {'b': 1}}['a']['b'] }} {{ {'a': {}} }}
{{ s|lower }} {{ s|upper }} {{ 'hELLO wORLD'|capitalize }} {{ "it's a-b (c) d1e"|title }} {{ 'ÉÀ'|lower }} {{ 'é'|upper }} {{ 'ß'|upper }}
[{{ sp|trim }}] [{{ 'xxaxx'|trim('x') }}] [{{ sp.strip() }}] [{{ sp.lstrip() }}] [{{ sp.rstrip() }}] [{{ '\n\nab\n'.strip('\n') }}] [{{ 'abcba'.strip('ab') }}]
{{ s|length }} {{ l|length }} {{ d|length }} {{ undefined_thing|length }} {{ empty|length }} {{ s|count }}
{{ 12|string }} {{ true|string }} {{ none|string }} {{ 1.0|string }} {{ [1]|string }} {{ 'x'|string }}
{{ d|items|list }} {{ undefined_thing|items|list }}
{{ l|join(', ') }} {{ ls|join }} {{ [1, none, 'a', 2.0]|join('-') }} {{ msgs|join(',', attribute='role') }} {{ d|join }} {{ 'abc'|join('.') }}
{{ undefined_thing|default('D') }} {{ empty|default('D') }}| {{ empty|default('D', true) }} {{ nil|default('D') }} {{ nil|d('D', boolean=true) }} {{ undefined_thing|default }}|
{{ 'abc'|list }} {{ d|list }} {{ (1, 2)|list }}
{{ msgs|selectattr('role', 'equalto', 'user')|list|length }} {{ msgs|selectattr('tool_calls')|map(attribute='role')|list }} {{ msgs|selectattr('tool_calls', 'defined')|list|length }}
{{ msgs|rejectattr('role', 'eq', 'user')|map(attribute='content')|first }} {{ msgs|rejectattr('tool_calls')|list|length }}
{{ l|select('odd')|list }} {{ l|reject('equalto', 1)|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ [0, 1]|reject|list }} {{ l|select('>', 1)|list }} {{ l|select('in', [1, 2])|list }}
{{ ls|map('upper')|list }} {{ ['a-b', 'c']|map('replace', '-', '+')|join }} {{ msgs|map(attribute='nope', default='x')|list }} {{ nested|map('length')|list }} {{ [nested]|map(attribute='x.y.1.z')|list }}
{{ nil|selectattr('a')|list }} {{ nil|map('upper')|list }} {{ undefined_thing|map('upper')|list }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ d|dictsort(by='value', reverse=true) }} {% for k, v in d|dictsort %}{{ k }}{{ v }}{% endfor %}
{{ l|sort }} {{ l|sort(reverse=true) }} {{ ls|sort }} {{ ls|sort(case_sensitive=true) }} {{ msgs|sort(attribute='content')|map(attribute='content')|list }} {{ msgs|sort(attribute='role,content')|map(attribute='content')|list }}
{{ ls|unique|list }} {{ [1, 2, 1, 2.0]|unique|list }} {{ msgs|unique(attribute='role')|map(attribute='content')|list }}
{{ l|first }} {{ l|last }} {{ s|first }} {{ s|last }} {{ el|first }}| {{ el|last }}| {{ d|first }}
{{ l|min }} {{ l|max }} {{ ls|min }} {{ ls|max }} {{ el|max }}| {{ msgs|max(attribute='content') }}
{{ l|sum }} {{ msgs|map(attribute='content')|map('length')|sum }} {{ [{'v': 1}, {'v': 2.5}]|sum(attribute='v') }} {{ l|sum(start=10) }}
{{ l|reverse|list }} {{ s|reverse }} {{ u|reverse }}
{{ 42.7|int }} {{ '42'|int }} {{ '42.9'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ 'ff'|int(base=16) }} {{ '0x1f'|int(0, 16) }} {{ true|int }} {{ none|int }} {{ ' 7 '|int }} {{ '-3'|int }}
{{ '2.5'|float }} {{ 3|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ '1e3'|float }}
{{ -5|abs }} {{ neg|abs }} {{ -2.5|abs }} {{ (neg|abs) + 1 }}
{{ 42.55|round }} {{ 42.55|round(1) }} {{ 42.55|round(1, 'floor') }} {{ 42.1|round(0, 'ceil') }} {{ 2.5|round }} {{ 3.5|round }} {{ 7|round }} {{ 0.125|round(2) }} {{ 1234|round(-2) }}
{{ range(7)|batch(3)|list }} {{ range(4)|batch(3, 'x')|list }} {{ range(7)|slice(3)|list }}
{{ multi|indent }}|{{ multi|indent(2, true) }}|{{ multi|indent(2, blank=true) }}|{{ multi|indent('>>') }}|{{ 'a\n'|indent }}|{{ ''|indent(first=true) }}|
{{ 'aaa'|replace('a', 'b', 2) }} {{ s|replace('World', 'X') }} {{ 'abc'|replace('', '-') }} {{ 5|replace('5', 'x') }}
{{ 'x'|center(5) }}| {{ 'xy'|center(5) }}| {{ 'a b  c'|wordcount }}
{{ '%s is %d and %.2f %5d|%-5s|%05d %x %% %r'|format('a', 3, 2.345, 7, 'ab', 42, 255, 'q') }} {{ '%(a)s-%(b)s'|format(a=1, b='x') }}
{{ '%s' % 'a' }} {{ '%s-%s' % (1, none) }} {{ '%d%%' % 50 }} {{ '%+d' % 5 }} {{ '%s' % [1, 2] }} {{ '%e' % 12345.678 }} {{ '%g' % 0.0001 }}
{{ '{} {}'.format(1, 'a') }} {{ '{1}{0}'.format('a', 'b') }} {{ '{x}'.format(x=5) }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}|{:x}'.format('a', 'b', 'c', 42, 2.345, 1234567, 255) }} {{ '{{}}'.format() }}
{{ html|escape }} {{ html|e }} {{ '<'|safe }} {{ ('<'|safe) + '<' }} {{ '<' + ('<'|safe) }} {{ ('<'|e) + '<' }} {{ ('<'|safe) ~ '<' }} {{ '<'|e|e }}
{{ d|tojson }} {{ l|tojson }} {{ s|tojson }} {{ nil|tojson }} {{ t|tojson }} {{ f|tojson }} {{ one|tojson }} {{ big|tojson }} {{ (1, 2)|tojson }} {{ el|tojson }} {{ ed|tojson }}
{{ esc|tojson }}
{{ esc|tojson(ensure_ascii=true) }} {{ u|tojson }} {{ u|tojson(ensure_ascii=true) }}
{{ html|tojson }}
{{ nested|tojson(indent=2) }}
{{ {'a': [], 'b': {}, 'c': [1, [2]]}|tojson(indent=4) }}
{{ nested|tojson(separators=(',', ':')) }} {{ d|tojson(sort_keys=true) }} {{ d|tojson(indent=0) }}
{{ {1: 'a', none: 2, true: 3, 1.5: 4}|tojson }}
{{ msgs|groupby('role')|map('first')|list }} {% for role, items in msgs|groupby('role') %}{{ role }}:{{ items|length }} {% endfor %}
{{ d|attr('nope') is defined }}
{{ s is string }} {{ n is string }} {{ n is number }} {{ f is number }} {{ t is number }} {{ t is boolean }} {{ 1 is boolean }} {{ n is integer }} {{ t is integer }} {{ f is float }}
{{ nil is none }} {{ undefined_thing is none }} {{ undefined_thing is defined }} {{ undefined_thing is undefined }} {{ s is not defined }} {{ nil is defined }} {{ not nil is none }}
{{ d is mapping }} {{ l is mapping }} {{ l is iterable }} {{ s is iterable }} {{ d is iterable }} {{ n is iterable }} {{ nil is iterable }} {{ undefined_thing is iterable }}
{{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ (1,) is sequence }} {{ n is sequence }} {{ d.items() is sequence }} {{ undefined_thing is sequence }} {{ range(2) is sequence }}
{{ t is true }} {{ no is false }} {{ 1 is true }} {{ 0 is false }} {{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(3) }}
{{ n is eq 7 }} {{ n is equalto(7) }} {{ n is ne 7 }} {{ n is gt 5 }} {{ n is lt 5 }} {{ n is ge 7 }} {{ n is le 7 }} {{ 1 is in l }} {{ 'z' is in 'xyz' }} {{ n is not in l }} {{ nil is sameas none }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'Abc' is lower }}
{{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ range is callable }} {{ s.upper is callable }} {{ s is callable }}
{{ 'a,b,c'.split(',') }} {{ 'a b  c'.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ think.split('</think>')[-1].lstrip('\n') }} {{ think.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }} {{ ''.split(',') }} {{ ''.split() }} {{ ' a b '.split(none, 1) }}
{{ s.startswith('Hell') }} {{ s.endswith('ld') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith('x') }} {{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ "they're x1y".title() }} {{ s.capitalize() }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ s.find('o') }} {{ s.find('zz') }} {{ s.rfind('o') }} {{ s.find('o', 5) }} {{ u.find('é') }} {{ s.count('l') }} {{ s.index('W') }} {{ 'aaa'.count('aa') }}
{{ multi.splitlines() }} {{ 'a\r\nb\rc'.splitlines() }} {{ multi.splitlines(true) }} {{ ''.splitlines() }}
{{ 'pre-x'.removeprefix('pre-') }} {{ 'x.py'.removesuffix('.py') }} {{ 'x'.removeprefix('y') }} {{ ', '.join(['a', 'b']) }} {{ 'k=v=w'.partition('=') }} {{ 'k=v=w'.rpartition('=') }} {{ 'k'.partition('=') }}
{{ '123'.isdigit() }} {{ '12a'.isdigit() }} {{ ''.isdigit() }} {{ 'abc'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' \n'.isspace() }} {{ 'AB'.isupper() }} {{ 'ab'.islower() }} {{ '1'.islower() }}
{{ l.count(1) }} {{ l.index(2) }} {{ (1, 1).count(1) }}
{{ dict(a=1, b='x') }} {{ dict(d, z=9)|tojson }}
{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%B %d, %Y') }} {{ strftime_now('%H:%M:%S') }} {{ strftime_now('%A %j %p %y') }} {{ strftime_now('') }}|
{{ raise_exception('my own message ' ~ n) }}
{% if msgs[0].role == 'system' %}sys{% elif msgs[0]['role'] == 'user' %}user{% else %}other{% endif %}
{% if undefined_thing %}a{% elif nil %}b{% elif el %}c{% elif ed %}d{% elif 0.0 %}e{% elif '' %}f{% else %}g{% endif %}
{% if l and d and s %}all{% endif %}{% if not el and not ed %}none{% endif %}
{% print n %}
{{ l[n - 6] }} {{ d['a' if t else 'b'] }} {{ msgs[-1]['content'][0]|upper }} {{ (s|upper)[0] }} {{ s|upper|lower|length + 1 }}
{{ [1, 2, 3,] }} {{ {'a': 1,} }} {{ (1, 2,) }} {{ [[], {}, ()] }}
{{ s[1:][1:][1:] }} {{ msgs[1:]|length }} {{ msgs[:1][0].role }}
{{ 'a' if 'x' is defined else 'b' }} {{ s is string and n is number or false }} {{ s is not string or true }} {{ (s is string) == true }}
{{ undefined_thing ~ 'x' }} {{ undefined_thing|upper }}| {{ undefined_thing|trim }}| {{ undefined_thing|list }} {{ undefined_thing|join }}|
{{ none|upper }} {{ 5|upper }} {{ none|trim }} {{ 5|trim }}
{{ "a\
b" }}
{{ l|map('string')|join('+') }} {{ l|map('int')|sum }} {{ l|map('tojson')|list }}
{{ d|length > 2 }} {{ d.a + 1 }} {{ d['a'] * 2 }} {{ -d.a }}
{{ msgs|last is mapping }} {{ (msgs|last).role }} {{ msgs|map(attribute='role')|unique|join(',') }}
{{ true and false or true }} {{ true or false and false }} {{ not false and true }} {{ not (true and false) }}
{{ 1 if 2 else 3 }}{{ 'x' if undefined_thing else 'y' }}
{{ True }} {{ False }} {{ None }}
{{ loop is defined }}{% for a in [1] %}{{ loop is defined }}{% for b in [1, 2] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% for m in msgs %}{% if loop.previtem and loop.previtem.role != m.role %}*{% endif %}{{ m.role }}{% if not loop.last %},{% endif %}{% endfor %}
{% set ns = namespace(found=false) %}{% for m in msgs %}{% if m.role == 'assistant' %}{% set ns.found = true %}{% break %}{% endif %}{% endfor %}{{ ns.found }}
{% set messages = msgs[1:] %}{% for message in messages %}{{ (message['role'] == 'user') != (loop.index0 % 2 == 0) }}{% endfor %}
{{ '\n' in multi }} {{ '\u00e9' in u }} {{ '\U0001F680' in u }}
{{ d|tojson|length }} {{ (d|tojson)[0] }} {{ s|list|last }}
{{ {'b': 1, 'a': 2}|dictsort|map('first')|list }} {{ {'x': none}|tojson }} {{ {'a': {'b': undefined_thing is defined}}|tojson }}
{{ lipsum is defined }} {{ cycler is defined }}
{{ 'x'|nofilter if false else 'fine' }}
{% if false %}{{ 'x'|nofilter }}{% endif %}fine
{{ [1,2,3]|tojson(indent='\t') }}
{{ 1.0 == 1 }} {{ 1.5|int }} {{ 3.0|string }} {{ 1e100 }} {{ -0.0 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ 0.0001 }} {{ 0.00001 }} {{ 123456789.123456789 }}
{{ {'a':1}.a }}{{ [1,2][0] }}{{ 'abc'[1] }}{{ (1,2)[0] }}{{ 'x'.upper() }}
{{ s.split(' ')|map('lower')|join('_') }} {{ s.split(' ')[0].lower() }}
{% set tool = {'name': 'f', 'parameters': {'properties': {'items': {'type': 'array'}}}} %}{{ tool.parameters.properties['items'].type }}{{ tool.parameters.properties.items is mapping }}
{% for name, value in {'q': {'type': 'string'}}|items %}{{ name }}: {{ value.type }}{% endfor %}
{%- set x = 5 -%}   {{ x }}   {%- if x -%}   y   {%- endif -%}
{% set loop_messages = msgs %}{% for message in loop_messages %}{% set content = '<|start|>' + message['role'] + '<|end|>\n\n' + message['content'] | trim + '<|eot|>' %}{% if loop.index0 == 0 %}{% set content = '<s>' + content %}{% endif %}{{ content }}{% endfor %}
""".strip("\n").split("\n")
# A line that ends with a backslash goes on.
joined = []
for line in SNIPPETS:
    if joined and joined[-1].endswith("\\"):
        joined[-1] += "\n" + line
    else:
        joined.append(line)
SNIPPETS = joined

# White space control, where newlines matter.
SNIPPETS += [
    "a\n{% if true %}\nb\n{% endif %}\nc\n",
    "a\n  {% if true %}\n  b\n  {% endif %}\n  c",
    "  {% if true %}x{% endif %}  \n",
    "a  {%- if true %}  b  {%- endif %}  c",
    "a  {% if true -%}  b  {% endif -%}  c",
    "a\n\n{%- if true -%}\n\nb\n\n{%- endif -%}\n\nc",
    "  {{ n }}\n  {{- n }}\n{{ n -}}  \n x",
    "a\n  {%+ if true %}b{% endif %}\n",
    "a\n  {% if true +%}\nb{% endif %}\n",
    "{# c #}\na\n  {# c #}\nb {# c #} \nc",
    "a\n  {#- c -#}  \nb",
    "x\r\ny\rz\r\n",
    "x\n\n",
    "\n\nx",
    "{% for x in l %}\n  {{ x }}\n{% endfor %}\nend",
    "{% for x in l -%}\n  {{ x }}\n{%- endfor %}\nend",
    "{% set x %}\n  a\n  {% if true %}\n  b\n  {% endif %}\n{% endset %}[{{ x }}]",
    "{% macro m() %}\n  x\n{% endmacro %}\n[{{ m() }}]",
    "{{ n }}\n{{ n }}\n\n{{ n }}",
    "  {% raw %}\n  {{ x }}\n  {% endraw %}\n  y",
    "\u00a0{%- if true %}a{% endif %}",
    "\u00a0{% if true %}a{% endif %}",
    "{{ {'a': 1} }}\n{{ {'a': {'b': {}}} }}",
    "text {{ '}}' }} {{ '%}' }} {{ \"{{\" }}",
    "{%if true%}a{%else%}b{%endif%}",
    "{%-if true-%} a {%-endif-%}",
    "{{n}}{{-n-}}{{ n}}",
    "{% if true %}\n\n\na{% endif %}",
    "{% set a = [\n  1,\n  2\n] %}{{ a }}",
    "{{ 'multi\nline' }}",
    "a {{- ' b ' -}} c",
    "{% generation %}\n  x\n{% endgeneration %}\ny",
]

# What must fail, in parsing or in rendering.
SNIPPETS += [
    "{{ 'a' + none }}", "{{ 'a' + 1 }}", "{{ 1 + 'a' }}", "{{ [1] + 'a' }}", "{{ none + 'a' }}", "{{ 1 - 'a' }}",
    "{{ undefined_thing + 'x' }}", "{{ 'x' + undefined_thing }}", "{{ undefined_thing.x }}", "{{ undefined_thing[0] }}",
    "{{ undefined_thing() }}", "{{ nested.nope.x }}", "{{ none.x.y }}", "{{ s() }}", "{{ 1 < 'a' }}", "{{ none < 1 }}",
    "{{ 'a' in 5 }}", "{{ 'a' in none }}", "{{ 1 in 'abc' }}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}",
    "{{ 5|length }}", "{{ none|length }}", "{{ 1 / 0 }}", "{{ 1 % 0 }}", "{{ 1 // 0 }}", "{{ [1]|join + 1 }}",
    "{{ l|tojson(bad=1) }}", "{{ undefined_thing|tojson }}", "{{ l|map('upper')|tojson }}", "{{ d.items()|tojson }}",
    "{{ l|map('nofilter')|list }}", "{{ 'x'|nofilter }}", "{{ 'x' is notest }}", "{{ s.split('') }}", "{{ s.index('zz') }}",
    "{{ ', '.join([1]) }}", "{{ '%d' % 'a' }}", "{{ '%s %s' % 'a' }}", "{{ '%s' % (1, 2) }}", "{{ range(1000000) }}",
    "{{ l|map('upper')|length }}", "{{ l|selectattr('x', 'notest')|list }}", "{{ d|dictsort(by='x') }}", "{{ [1, 'a']|sort }}",
    "{% set x.y = 1 %}", "{% set nope.y = 1 %}", "{% set a, b = [1] %}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{% macro m(a=1, b) %}{% endmacro %}", "{{ -'a' }}", "{{ {[]: 1} }}",
    "{{ s[::0] }}", "{{ l['a':] }}", "{{", "{{ }}", "{% if %}{% endif %}", "{% if true %}", "{% endif %}", "{% nope %}", "{% for x in %}{% endfor %}",
    "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{{ [1 }}", "{{ 'abc }}", "{# open", "{% raw %}open", "{% break %}", "{{ a b }}", "{{ 1 ! 2 }}", "{{ $ }}",
    "{{ m(a=1, 2) }}", "{% set 5 = 1 %}", "{% set true = 1 %}", "{% for x in l %}{% else %}{% else %}{% endfor %}", "{{ x.'a' }}", "{{ '\\u12' }}",
    "{% macro m() %}{% endmacro %}{% call m() %}x{% endcall %}", "{{ loop.index }}", "{% for x in l %}{{ loop(x) }}{% endfor %}", "{{ d|items|length }}",
    "{{ 'x'|indent('a', 'b', 'c', 'd') }}", "{{ s.nope() }}", "{{ range() }}", "{{ namespace(1) }}", "{{ raise_exception() }}",
]


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(lineno)

    @staticmethod
    def _support(caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


HERE = os.path.dirname(os.path.abspath(__file__))
NOW = datetime.datetime(2026, 11, 30, 12, 34, 56)
env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
    x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
)
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = NOW.strftime
for name in ("lipsum", "cycler", "joiner"):
    del env.globals[name]


def render(source, context):
    try:
        return {"text": env.from_string(source).render(**context)}
    except jinja2.exceptions.TemplateSyntaxError as error:
        return {"error": f"{type(error).__name__}: {error.message}"}
    except jinja2.exceptions.TemplateError as error:
        if type(error) is jinja2.exceptions.TemplateError:
            return {"raised": error.message}
        return {"error": f"{type(error).__name__}: {error}"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def write(name, value):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
        file.write("\n")


def read(name):
    with open(os.path.join(HERE, name), encoding="utf-8", newline="") as file:
        return file.read()


if __name__ == "__main__":
    cases = [{"source": source, **render(source, CONTEXT)} for source in SNIPPETS]
    write("snippets.json", {"now": NOW.isoformat(), "context": CONTEXT, "cases": cases})
    contexts = json.loads(read("cases.json"))["cases"]
    model = "SmolLM2-135M-Instruct"
    source = read(model + ".jinja")
    write(model + ".json", {name: render(source, context) for name, context in contexts.items()})
