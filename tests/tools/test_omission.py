"""Placeholders for text left out are refused, and every other use of an ellipsis is not."""

from __future__ import annotations

from typing import Any

import pytest

from nexus_cli.tools.omission import find_new_omission

LEFT_OUT = """\
(rest of methods ...)
    (rest of methods ...)
(rest of the code...)
(unchanged code ...)
(existing methods ...)
// ... existing code
// ... existing code ...
    // ...existing code...
// rest of code ...
// rest of the code remains the same
// rest of implementation unchanged...
// ... other methods
// ... keep existing code ...
// existing code here...
// … rest of the function …
# ... unchanged ...
# ... rest of file
# ... (rest of the file unchanged)
# rest of the class...
# ... existing imports ...
# [... rest of code ...]
# (existing code remains unchanged)
# ... same as before ...
# ... remaining test cases ...
# ... code omitted for brevity ...
# code omitted for brevity
-- ... existing columns ...
-- rest of the file unchanged
<!-- rest of file -->
<!-- ... existing content ... -->
<!-- Rest of the content remains the same -->
/* ... existing styles ... */
/* rest of the file */
{/* ... existing code ... */}
{/* Rest of the component remains the same */}
; ... rest of the code
% ... rest of the document ...
(* ... rest of the module ... *)
{- ... rest of module ... -}
//... rest of the code ...
// ... more methods ...
// ... (methods above unchanged) ...
# ... code continues ...
# the rest is unchanged
// rest stays the same
/* ... snip ... */
// ... imports ...
-- ... body ...
<!-- rest of the page -->
// [... existing code ...]
# ...rest of the function body...
\t\t// ... keep the rest of the existing code ...
... rest of code ...
... existing code ...
[... rest of file unchanged ...]
<... rest of the file ...>
    return x  # ... rest of the function
  foo(); // ... existing code ...
  ... (rest of methods) ..."""

LEGITIMATE = """\
...
    ...
def f(self) -> int: ...
class A: ...
x: tuple[int, ...] = ()
print("Loading...")
"Loading..."
    "rest of code ...",
const all = { ...rest, a };
  ...rest,
  ...existing,
  ...args
  ...existingUsers,
  (...args) => {
  ({ ...existing })
  {...rest}
  (...rest) => rest
foo(...unchanged, ...rest)
function f(...rest) {
template <typename... Rest>
void f(Rest... rest);
  rest...
case 1 ... 5:
for i in 0...10 {
# Updating existing users...
# Loading the rest of the page...
# Skip the remaining lines...
// Wait for the rest...
// Run the existing tests...
# ...
// ...
/* ... */
# etc ...
# The rest of the arguments
# Rest of the arguments
# Remaining tests
# existing code
// unchanged
# More tests...
# ... and more
# Rest of the line
# ... and not None here
# ... do other things here ...
# The page continues below.
// Rest in peace
# fmt: off ...
# The rest is handled by the caller.
# ... otherwise the cache is stale
raise ValueError("the rest of the file ...")
x = y  # see the rest of the docs...
TODO: write more tests ...
## Rest of the story
1. Open the existing file ...
| ... | other | ... |
The code continues ...
# ... and then some.
# Wait ... what?
# 1, 2, 3, ...
>>> f(...)
    ... return x
... if x:
...     pass
And so on ...
He said: the rest is silence ...
... the rest is history.
Please wait ...
The rest of the file is described below.
- rest of the file
- Existing code is kept.
* the rest of the code...stays
[More](...)
git log A...B
rm -rf .../
"existing code ..."
'... rest of code ...'
`// ... existing code`
msg = "... existing code ..."
print("# ... existing code")
<a href="#">... previous page</a>
arr[..., 0]
Other ...
(see below ...)
(and so on ...)
(loading ...)"""


@pytest.mark.matrix
@pytest.mark.parametrize("line", LEFT_OUT.split("\n"))
def test_a_placeholder_is_found(line: str) -> None:
    assert find_new_omission("old\n", f"a = 1\n{line}\nb = 2\n") == line.strip()
    assert find_new_omission("old", f"a\r\n{line.upper()}\r\nb") == line.upper().strip()
    assert find_new_omission(f"x\n{line}\n", f"y\n  {line}\n") == "", "what stands there already may stay"


@pytest.mark.parametrize("line", LEGITIMATE.split("\n"))
def test_another_ellipsis_is_none(line: str) -> None:
    assert find_new_omission("", f"a = 1\n{line}\nb = 2\n") == ""


def test_the_tools_refuse_it_and_leave_the_file(desk: Any) -> None:
    path = desk.write("a.js", "a\nb\nc\n")
    desk.run("read_file", path="a.js")
    edit = {"old": "b", "new": "B\n// ... existing code ..."}
    told = desk.run("edit_file", path="a.js", edits=[{"old": "a", "new": "A"}, edit]).error
    assert "edit 2 of 2" in told and "// ... existing code ..." in told and "every line" in told
    assert "(rest of file ...)" in desk.run("write_file", path="a.js", content="a\n(rest of file ...)\n").error
    assert path.read_text() == "a\nb\nc\n"
    assert desk.run("write_file", path="b.md", content="// ... existing code\n").success, "nothing is left out of it"
    assert desk.run("write_file", path="b.md", content="x\n// ... existing code\n").success
