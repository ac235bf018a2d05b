"""The forms of lines that name a failure, and of those that only look like one."""

from __future__ import annotations

import re

HINTS = (
    *("error", "exception", "fail", "fatal", "panic", "denied", "refused", "not found", "no such", "cannot", "can't"),
    *("could not", "couldn't", "unable", "undefined", "unresolved", "conflict", "killed", "segmentation", "abort"),
    *("timed out", "timeout", "invalid", "interrupt", "npm err", "data race", "not ok", "missing", "exists", "unbound"),
    *("✗", "✘", "×", "✕", "●", "unrecognized", "critical", "severe", "violat", "reject", "expected", "overflow"),
    *("no rule", "not allowed", "sanitizer", "declin", "unterminated", "unknown", "illegal", "duplicate", "mismatch"),
    *("unsupported", "not install", "out of memory", "oomkill", "went wrong", "no matching", "malformed", "corrupt"),
    *("is not ", "does not", "did not", ": not a"),
)
"""A line that names a failure holds one of these, or one of the forms below."""
HINT = re.compile(r"! [A-Z]|.*(?:: [A-Z]{1,4}\d{3,4}:? |:\d+:\d+:? )|E {3}|\[.{0,20}\] ?\[?E\b|lua")
TYPE = r"(?:[A-Za-z_]\w{0,60}(?:\.|::|\\)){0,8}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Fault|Failure|Exit|Violation)"
STAMP = r"\S{0,3}(?:\d{4}[-/.]\d\d[-/.]\d\d|\d\d[:.]\d\d[:.]\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d).{0,60}?"
LEVEL = r"(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC|EMERG|ALERT|ERR|CRIT)"
SYSTEM = (
    r"(?:command not found|No such file or directory|[Pp]ermission denied|[Nn]ot a directory|[Ii]s a directory|File "
    r"exists|No space left on device|Connection refused"
    r"|Connection reset.*|Operation not permitted|Device or resource busy|Directory not empty|Read-only file system|"
    r"Too many open files|Broken pipe|Address already in use"
    r"|Name or service not known|Could not resolve host.*|Text file busy|not found|Network is unreachable|No route "
    r"to host|[Tt]imed out|i/o timeout|Cannot allocate memory)"
)

TESTS = (
    r"\s*--- FAIL: .*|not ok \d+.*|\s*● .*|\s*[✗✘✕×✖] \D.*|FAIL: \w.*|test \S+ \.\.\. FAILED|\s*\d+\) test .*|"
    r"\[ +FAILED +\] \S+.*|\s*\d+/\d+ Test +#\d+: .*\*\*\*.*"
)

SURE = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\s*(?:E {{2,}})?(?:Uncaught (?:\(in promise\) )?|Unhandled |Caused by: |"
        rf"(?:\(node:\d+\) )?Exception in thread \"[^\"]{{0,60}}\" |\[?\w{{1,20}}\]? ?)?{TYPE}(?: ?\[\w+\])?(?:: .*|$)",
        r"\s*E {3,}(?:assert |Failed: |fixture |\w).*",
        r"(?:FAILED|ERROR) [\w./-]+(?:::.*|\.py\b.*| - .*| > .*)",
        r"\s*(?:error|fatal(?: error)?|Error|Fatal(?: error)?|ERROR|FATAL|\[ERROR\]|\[error\]|\[FATAL\]|"
        r"E:)(?:\[[\w-]+\](?::| )|:| [A-Z]+\d+:?| (?:in|at|while|when|on|during|from|response|creating|loading|reading|"
        r"running|opening|building|parsing|connecting|installing|processing|executing|writing|fetching|"
        r"starting)\b(?!.*[.] [A-Z])) ?\S.*|E: \S.*|\[(?:ERROR|error|FATAL)\]\s{1,8}\S.*|(?:ERROR|FATAL|"
        r"CRITICAL)(?: {2,8}\S.*| (?:\d+ )?\([\w ]{1,20}\).*: .*)",
        r".{0,40}\b(?:ERROR|FATAL|CRITICAL): {1,2}\S.*",
        r"e: \S{1,200}:\d+:\d+:? .*|(?:\[[\d:.]{5,15}\] ?)?\[E\] ?[\[:].*|E \(\d+\) \w+: .*",
        r".{0,200}\"error\" ?: ?\"[^\"\n]{4,}.*",
        rf"{STAMP}\b{LEVEL}\b.*|level=(?:error|fatal) .*|.{{0,80}} level=(?:error|fatal)\b.*|{LEVEL}\s.{{0,80}}: .*",
        r"[^\s:][^:]{0,200}:\d+(?::\d+)?:? (?:[Ff]atal )?(?:error|Error|syntax error)\b.*",
        r"[\w./\\@-]{1,200}(?:\(\d+,\d+\)|:\d+:\d+)(?:: | - )error .*",
        r"\s*\d+:\d+\s+(?:error|✖)\s+\S.*",
        r"[\w./\\@+-]{1,200}\.\w{1,10}:\d+:\d+:? (?! *(?:warning|note|info|hint|help|remark|required from|in )\b)"
        r"\S.*|[\w./\\@-]{1,200}:\d+: error: .*",
        r"thread '[^']{0,80}' (?:\(\d+\) )?panicked at .*|panic: .*|\*\* \(\w[\w.]{0,60}\) .*",
        r"npm (?:ERR!|error) (?:E[A-Z]{3,}\b|.*(?:[Cc]ould not|[Mm]issing|[Nn]ot [Ff]ound|No matching|[Ff]ailed|"
        r"[Cc]annot|[Ii]nvalid|Unsupported| \d{3} )).*|ERR_PNPM\w* .*",
        rf"(?:[^\s:][^:]{{0,120}}: ){{1,3}}(?:line \d+: )?.{{0,300}}\b{SYSTEM}[.:]?(?: \(\d+\))?",
        r"\w[\w./-]{0,60}: (?:cannot|can't|could not|failed to|unable to|invalid|unrecognized|unknown|missing|"
        r"illegal|no such|not a|unexpected) .*",
        r"\s*[Aa]ssertion\b.*\b[Ff]ail\w*.*",
        r"\s*SQLSTATE\[.*|ORA-\d{5}: .*|MSB\d{4}: .*",
        r"PHP (?:Fatal|Parse) error: .*|! (?:[A-Z][\w-]+ ){1,3}.{2,200}|CONFLICT \(.*|! ?\[(?:remote )?rejected\].*",
        r"\s*(?:Segmentation fault|Killed|Aborted|Bus error|Out of memory|Illegal instruction|Floating point "
        r"exception|Out of Memory)\b.*",
        r".{0,200}undefined reference to .*|.{0,200}: undefined: \w+.*|.{0,80}: multiple definition of .*|Undefined "
        r"symbols for .*",
        rf"\s*\d+\) .*Error\b.*|{TESTS}",
        r"(?:-?[\w./-]{1,80}: )(?:line )?\d+: (?![Ww]arning)\S.*|[\w./-]{1,80}: (?:\w+ )?syntax error\b.*",
        r"make(?:\[\d+\])?: \*\*\* No .*|.{0,200}\bregion `.{1,60}' overflowed by .*|(?:\S{0,200}\b)?ld(?:\.\w+)?: "
        r"(?:cannot find|library not found|symbol|undefined|unrecognized|unknown|.*: (?:file not recognized|error)).*",
        r"remote: .*(?:[Nn]ot allowed|[Dd]enied|[Pp]rotected|[Rr]ejected|[Dd]eclined|[Ee]xceed|[Ff]atal|[Ii]nvalid|"
        r"[Ff]ailed|[Mm]issing|[Ff]orbidden|[Nn]ot found|[Ee]rror: ).*",
        r"curl: \(\d+\) .*|Host key verification failed\.?|.*\bPermission denied \([\w,-]+\)\.?|SUMMARY: \w+Sanitizer: "
        r".*|==\d+==ERROR: .*|\S.*\((?:\w+::){0,4}\w+Error\)|\S.* at \S+ line \d+(?:, .*)?\.|(?:lua\S*: )\S+:\d+: .*",
        r"\s*(?:Failed asserting that|XCTAssert\w+ failed|Failure/Error:) .*|.*\{.{0,300}\"level\" ?: ?\"(?:error|"
        r"fatal)\".*|(?:.{0,60}\s)?lvl=(?:error|eror|crit).*|\[\w[\w ]{0,20}\]\[(?:ERROR|FATAL)\].*|FATAL ERROR: .*",
        r"(?:Syntax|Parse|Compile|Compilation|Type|Fatal|Runtime|Build|Internal|Import) ?[Ee]rror\b:? .*|"
        r"(?:jq: )?(?:parse|syntax|compile) error: .*",
        r".{0,200}: Assertion .* failed\.|.{0,60}\[(?:emerg|crit|alert)\] .*|An? (?:\w+ )?error occurred(?: \(\w+\) |"
        r": ).*|CMake Error at \S+ .*|The \w+ \"[^\"]{1,80}\" is invalid: .*|Bundler could not find .*|"
        r"Job for \S+ failed .*|Connection error: .*|.{0,60}\bfailed to (?:resolve|load|parse|start|open|connect|"
        r"compile) .*",
    )
)
"""Whole lines that can only be the name of a failure."""

TEST = re.compile(rf"{TESTS}|\s*FAIL(?:ED)? (?!.* - \S).*")
"""The name of a failed test: the reason stands below, where there is one."""
BEGUN = re.compile(
    r"^(?:[ \t]*--- FAIL: .{1,300}\n[ \t]+\S{1,100}\.go:\d+: .{1,500}|"
    r"[ \t]*(?:[✗✘✕×✖●] |\d+\) |not ok |\[ +FAILED).{1,300}\n(?:[ \t]*\n|[ \t]+---\n){0,2}[ \t]+"
    r"(?:→ |\w*Error: |error: |message: |[Aa]ssert|[Ee]xpect|[Ff]ail).{1,500})$",
    re.MULTILINE,
)
"""The name of a failed test and, right behind it, the reason: neither says much without the other."""
CAUSE = re.compile(r"Caused by: ")
"""What comes with it is the consequence of what it tells."""

LIKELY = tuple(
    re.compile(pattern)
    for pattern in (
        r"\s*(?:Could not|Cannot|Can't|Unable to|Failed to|could not|cannot|failed to|unable to|Missing|Invalid|"
        r"Unknown|Unexpected|Unrecognized|No module named|No matching) .*",
        r".{0,300}\b(?:[Cc]onnection refused|[Aa]ccess denied|ECONN\w+|ENOENT|EACCES|EADDRINUSE|ETIMEDOUT|timed out|"
        r"401 Unauthorized|403 Forbidden|404 Not Found|50\d [A-Z]\w+.*)\b.*|HTTP/[\d.]+ [45]\d\d\b.*|"
        r".{0,200}\"(?:type|code|error\w*)\" ?: ?\"\w*(?:error|declined|"
        r"invalid|denied|failed|not_found|expired|unauthori[sz]ed)\w*\".*",
        r".{0,200}\b(?:violates|rejected|denied|does not exist|is not (?:defined|recognized|installed)|already "
        r"exists|cannot find|could not find|not found)\b.*",
        r"\S.{0,200}\.{3,} ?(?:Failed|FAILED|ERROR)$",
        r"\s*[Ee]xpected\b.*\b(?:got|to|but|received)\b.*|[\w./-]{1,200}:\d+:\d+: \S.*",
        r"WARNING: DATA RACE|.{1,200}: (?:error|failed|failure): .*|(?:Build|BUILD|Compilation|Deploy\w*|Job|Step "
        r".{1,40}|Task .{1,60}) (?:failed|FAILED)\b.+",
    )
)
"""Lines that are one where nothing surer stands in the message."""

WEAK = re.compile(
    r".*\b(?:fail(?:ed|s|ure)?|errors?|denied|refused|not found|cannot|can't|could not|unable|invalid|unknown|missing|"
    r"incompatible|not (?:authori[sz]ed|allowed|permitted|supported|installed)|conflicts?|unexpected|rejected|exceeded|"
    r"timed out|undefined|mismatch|killed|crash(?:ed)?)\b.*",
    re.IGNORECASE,
)
"""Lines that are one only where the command is known to have failed and nothing else in its output says why."""

NOT = re.compile(
    r".*\b(?:DEBUG|INFO|TRACE|NOTICE)\b|\s*(?:WARN(?:ING)?|PASSED|PASS|ok|warning|note|help|hint|info|debug)\b|"
    r".*\s(?:WARN(?:ING)?|warning)[: ]|test .* \.\.\. ok|.*\b(?:no|0|zero) (?:errors?|failed|failures)\b|\s*(?:raise|"
    r"except|throw|catch|return|assert|if|for|while|def|class|fn|func|import|from|try)\b|[+-] |\s*(?://|/\*|#|\*)|"
    r".*[;{]$|\s*\d+[|\t]|.*\berrors?\.(?:o|py|go|rs|js|ts|c|h)\b|.*\b(?:complete log|_logs|A complete log|stack trace|"
    r"full log)\b",
)
"""Lines of code, of passing tests, of levels below an error: they hold the words without the failure."""

FOLLOWS = re.compile(
    r"\W*(?:\d+ (?:failed|errors?|passed|problems?)\b.*|FAILURES|ERRORS|short test summary.*|[Ff]ound \d+ (?:errors?|"
    r"problems?).*|Tests? (?:failed|run).*)\W*$|(?:error|ERROR|\[ERROR\]):? ?(?:could not (?:compile|apply|install)|"
    r"aborting due to|test failed|process didn't|failed to push|subprocess-exited|command .* failed|script returned|"
    r"Command failed|job failed|Process completed|COMPILATION|BUILD|Compilation).*|\[ERROR\] (?:COMPILATION ERROR|"
    r"Failed to execute goal|-> |To see|Re-run|For more|After correcting|\[Help).*|Error (?:message|code|details?|"
    r"output|type)s?: .*|.*exited with (?:code|status|exit code) \d+.*|npm (?:ERR!|error) (?:code|errno|syscall|path|"
    r"cwd|command|Exit|exit|A complete|Fix the|this command|While resolving|Found:|node_modules|not ok|lifecycle|"
    r"Lifecycle|workspace|location|Failed at|This is probably|or (?:retry|run)|to (?:accept|address)).*|npm (?:ERR!|"
    r"error)\s*$|make(?:\[\d+\])?: (?!\*\*\* No ).*|collect2: .*|ninja: .*|FAIL(?:ED)?(?:$|\s(?!.* - \S).*)|"
    r"exit status \d+$|Could not apply .*|error: could not apply .*|Automatic merge failed.*|.*\*\* BUILD FAILED.*|"
    r"BUILD FAILED.*|(?:ERROR|FAIL): test\w* \(.*\)|(?:\[ERROR\] )? *Tests run: .*|.*\(.*hook declined\)|"
    r"error: unable to sign .*|.*(?:cannot compile module|Failed building wheel) .*|Aborted\b.*|"
    r".*configuration file \S+ test failed|.*did not complete successfully: exit code: \d+.*|.*: ld returned \d.*|"
    r".*linker command failed.*|Errors parsing .*|FAILED: .*|HTTP/[\d.]+ \d.*|.*Command \w+ failed with .*|rspec \./.*|"
    r"test result: .*|ERROR: (?:ResolutionImpossible|No matching distribution|executor failed|"
    r"Service .* failed to build).*|(?:Execution failed for task|FAILURE: Build failed).*|.*(?:script|process|task|"
    r"job) failed(?: with .*)?\.?|rsync error: .*|error: (?:linking with|build failed|target .* failed).*|"
    r".*code [Ee]rror \d+$|.*: \*\*\* \[.*\] (?:Error|Segmentation|Aborted|Killed).*|tar: (?:Exiting|Error is not).*|"
    r"(?:==\d+==)?ABORTING|.*Traceback \(most recent.*|error Command failed.*|ERROR: (?:Job|Process|Command|script|"
    r"subprocess).*|.*:$"
)
"""Lines that count failures, repeat that there was one, or lead to the line that names it."""

NOT_SURE = re.compile(
    r".*\b(?:DEBUG|INFO|TRACE|NOTICE)\b|.*\s(?:WARN(?:ING)?|warning)[: ]|\s*(?:warning|WARN)\b|.*\b(?:no|0) "
    r"(?:errors?|failures)\b|.*\berrors?\.(?:o|py|go|rs|js|ts|c|h)$"
    r"|\s*(?:raise|throw|console\.\w+|log(?:ger|ging)?\.\w+|print\w*)\b ?\(?\w*\(?\w?[\"'].*"
)
"""Lines of other levels, whatever form they have."""

LOGGED = re.compile(
    rf"{STAMP}\b{LEVEL}\b.*|\s*(?:\[?(?:ERROR|FATAL|CRITICAL)\]?:? ).{{8,}}|.{{0,80}}\blevel=(?:error|fatal)\b.*"
)
"""Lines of a log that are of level ERROR or worse."""
QUOTED_ERROR = re.compile(rf"(?:^|[\s`\"'(:])(?P<line>{TYPE}: [^`\n\"]{{3,300}})")
_SAYS = (
    r"\b(?:get|gets|got|getting|see|says?|said|error|message|fails? with|failed with|throws?|threw|complains?|with|"
    r"prints?|shows?|reports?)\b"
)
SAID = re.compile(
    rf"{_SAYS}(?:[^`\"“]{{0,40}}[`\"“](?P<line>[^`\"“”\n]{{6,300}})[`\"”]|[^`\"“'\n]{{0,40}} "
    rf"'(?P<single>[^'\n]{{6,200}})'(?![\w'])|"
    r"(?: is| was)?: (?P<rest>[^`\"“\n]{6,300})$)", re.IGNORECASE
)
"""An error in the words of a sentence."""
RAISED = re.compile(
    rf"\b(?:get|gets|got|getting|throws?|threw|raises?|raised|(?:fail|die|crash|end)(?:s|ed)? with) (?:an? |the |"
    rf"this )?`?(?P<line>{TYPE}`? (?:at|in|on|from) [^\s,;]{{3,200}})"
)
"""An error by its type and place."""
LEADS_TO = re.compile(
    r"\b(?:get|gets|got|getting|see|says?|said|error|output|message|fail(?:s|ed)?|throws?|threw|log|prints?|shows?|"
    r"reports?)\b[^.?!]{0,60}:?$"
)
"""The lead of a message that stands in a paragraph of its own."""
BARE = re.compile(rf"\s*{TYPE}")
"""A type without a word of explanation: where another line has one, that is the telling one."""
