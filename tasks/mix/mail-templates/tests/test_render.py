"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import json
import subprocess

DRIVER = """
const { render, TemplateError } = require(process.cwd() + '/lib/render.js');
for (const [template, values] of JSON.parse(require('node:fs').readFileSync(0, 'utf8'))) {
  try {
    console.log(JSON.stringify(render(template, values)));
  } catch (error) {
    if (!(error instanceof TemplateError)) {
      throw error;
    }
    console.log('TemplateError ' + error.message.split(':')[0]);
  }
}
"""


def rendered(*mails):
    done = subprocess.run(
        ["/run/appliance/subject", "node", "-e", DRIVER],
        input=json.dumps(mails),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) if line.startswith('"') else line for line in done.stdout.splitlines()]


def test_lists_in_lists():
    template = "[% for o in orders %]#[% o.no %]:[% for p in o.parts %] [% p %];[% end %]\n[% end %]."
    orders = [{"no": 1, "parts": ["cup", "lid"]}, {"no": 2, "parts": []}, {"no": 3, "parts": ["pot"]}]
    assert rendered([template, {"orders": orders}]) == ["#1: cup; lid;\n#2:\n#3: pot;\n."]


def test_conditions_in_lists():
    template = "[% for o in orders %][% if o.paid %]paid [% else %]open [% end %][% end %]!"
    assert rendered([template, {"orders": [{"paid": True}, {"paid": False}, {}]}]) == ["paid open open !"]


def test_lists_in_conditions():
    template = "[% if tags %]<[% for t in tags %][% t %] [% end %]>[% else %]no [% for d in days %][% d %][% end %][% end %]"
    assert rendered(
        [template, {"tags": ["a", "b"], "days": [1]}], [template, {"tags": [], "days": [4, 5]}], [template, {}]
    ) == ["<a b >", "no 45", "no "]


def test_conditions_in_conditions():
    template = "[% if a %]A[% if b %]B[% else %]b[% end %][% else %]a[% if b %]B[% else %]b[% end %][% end %]"
    cases = [(template, {"a": a, "b": b}) for a in (1, 0) for b in (1, 0)]
    assert rendered(*cases) == ["AB", "Ab", "aB", "ab"]


def test_an_else_belongs_to_the_innermost_if():
    assert rendered(
        ["[% if a %][% if b %]both[% end %][% else %]not a[% end %]", {"a": 1, "b": 0}],
        ["[% if a %][% if b %]both[% end %][% else %]not a[% end %]", {"a": 0, "b": 1}],
        ["[% if a %][% if b %]both[% else %]only a[% end %][% end %]", {"a": 1, "b": 0}],
    ) == ["", "not a", "only a"]


def test_deep_blocks():
    depth = 40
    template = "".join(f"[% for x{n} in list %]" for n in range(depth)) + "[% x0 %]" + "[% end %]" * depth
    assert rendered([template, {"list": ["deep"]}]) == ["deep"]


def test_inner_names_hide_outer_ones():
    template = "[% x %]-[% for x in xs %]([% x.n %][% for x in x.xs %][% x %][% end %][% x.n %])[% end %]-[% x %]"
    values = {"x": "top", "xs": [{"n": 1, "xs": ["a", "b"]}, {"n": 2, "xs": []}]}
    assert rendered([template, values]) == ["top-(1ab1)(22)-top"]
    assert rendered(["[% for x in xs %][% n %][% x.n %] [% end %][% x %]", {"n": 0, "xs": values["xs"]}]) == ["01 02 "]


def test_values_are_no_templates():
    secret = {"name": "[% password %] & [% if x %]", "password": "hunter2", "names": ["[% raw password %]", "$&$1$'"]}
    assert rendered(
        ["Dear [% name %]!", secret],
        ["[% raw name %]", secret],
        ["[% for n in names %][% n %];[% end %]", secret],
        ["[% raw money %] and [% money %]", {"money": "$& $$ $' $`"}],
    ) == [
        "Dear [% password %] &amp; [% if x %]!",
        "[% password %] & [% if x %]",
        "[% raw password %];$&amp;$1$';",
        "$& $$ $' $` and $&amp; $$ $' $`",
    ]


def test_mistakes_name_their_line():
    assert rendered(
        ["a\n[% if x %]\nb\n", {"x": 1}],
        ["a\n\n[% for x in xs %][% if x %]\n[% end %]\n", {"xs": []}],
        ["one\ntwo [% end %]", {}],
        ["[% if a %]\n[% else %]\n[% else %]\n[% end %]", {}],
        ["[% for x in xs %]\n[% else %]\n[% end %]", {"xs": [1]}],
        ["\n\n[% else %]", {}],
        ["fine [% a %]\n[% for in xs %]", {}],
        ["\n[% a b %]", {}],
        ["\n\n\n[% a", {}],
    ) == [f"TemplateError line {number}" for number in (2, 3, 2, 3, 2, 3, 2, 2, 4)]


def test_mistakes_in_parts_that_are_not_shown():
    assert rendered(
        ["[% if no %]\n[% what is this %][% end %]", {}], ["[% for x in none %]\n\n[% ? %][% end %]", {}]
    ) == ["TemplateError line 2", "TemplateError line 3"]


def test_values():
    assert rendered(
        ["Dear [% customer.name %], [% raw note %][% nothing %][% customer.none.at.all %]", {"customer": {"name": "A & <B>"}, "note": "<b>"}],
        ["[% n %] [% zero %] [% no %]", {"n": 1.5, "zero": 0, "no": False}],
        ["plain\n", {}],
        ["", {}],
    ) == ["Dear A &amp; &lt;B&gt;, <b>", "1.5 0 false", "plain\n", ""]


def test_one_block():
    assert rendered(
        ["[% for x in xs %]<[% x %]>\n[% end %]", {"xs": ["a", "b"]}],
        ["[% for x in xs %]<[% x %]>\n[% end %]", {}],
        ["[% if x %]yes[% end %]", {"x": ""}],
        ["[% if x %]yes[% else %]no[% end %]", {"x": [0]}],
        ["[% if x %]yes[% else %]no[% end %]", {"x": []}],
    ) == ["<a>\n<b>\n", "", "", "yes", "no"]


def test_blocks_beside_each_other():
    template = "[% if a %]a[% end %][% if b %]b[% else %]-[% end %][% for x in xs %][% x %][% end %]"
    assert rendered([template, {"a": 1, "xs": [1, 2]}], [template, {"b": 1}]) == ["a-12", "b"]
