# ruff: noqa: E501
"""One small file of each format in which programs keep their texts, with every feature that its reader has a rule for."""

from __future__ import annotations

JSON = r"""{
  "key": "Hello {{name}}, it's \"me\"",
  "item_one": "{{count}} item",
  "item_other": "{{count}} items",
  "deep": {"list": ["One", "Two words"], "url": "https://a.b/c", "id": "some_id", "n": 1.50, "no": null},
  "icu": "{n, plural, one {# dog} other {# dogs}}",
  "nest": "See $t(key) now\u00a0!"
}
"""

ARB = """{
  "@@locale": "en",
  "hello": "Hello {name}",
  "@hello": {"description": "A greeting", "placeholders": {"name": {"type": "String"}}}
}
"""

MESSAGES = """{
  "title": {"message": "The $NAME$ dog", "description": "A title", "placeholders": {"name": {"content": "$1", "example": "big"}}}
}
"""

CATALOG = """{
  "sourceLanguage" : "en",
  "strings" : {
    "Good morning" : {

    },
    "bye" : {
      "extractionState" : "manual",
      "localizations" : {
        "en" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "Good bye %@"
          }
        }
      }
    },
    "Other" : {
      "comment" : "x"
    }
  },
  "version" : "1.0"
}
"""

YAML = r"""# comment
en: &root
  hello: "Hello %{name}\n"  # greet
  plain: Good morning
  sq: 'It''s late'
  yes: "Yes"
  bool: true
  dogs:
    one: one dog
    other: "%{count} dogs" # many
  lit: |
    First line
      second line

  fold: >-
    A folded
    line

    and more
  list: [a dog, "two, cats"]
  two: a value
    on two lines
  ref: *root
"""

PROPERTIES = r"""# c
key=Hello {0}, it''s me
two : A value \
    on two lines
! another
caf\u00e9=caf\u00e9 au lait
log4j.root=INFO_A1
empty=
"""

STRINGS = r"""/* c */
"a" = "Hello %@,\n it's \"me\"";
// d
b = "x y";
"c" /* e */ = /* f */ "A \U00e9 dog";
"""

ANDROID = r"""<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <!-- a comment -->
    <string name="app" translatable="false">Dikkat</string>
    <string name="hello">Hello <b>big</b> <xliff:g id="n" example="Bob">%1$s</xliff:g>, it\'s \"me\"\n&#169; Bob</string>
    <string name="data"><![CDATA[<a href="x">The dog</a> isn\'t here]]></string>
    <string name="lines">
        The cat
        sleeps
    </string>
    <string name="ref">@string/hello</string>
    <string-array name="pets">
        <item>A dog</item>
        <item>A cat</item>
    </string-array>
    <plurals name="dogs">
        <item quantity="one">%d dog</item>
        <item quantity="other">%d dogs</item>
    </plurals>
    <style name="T"><item name="android:text">style words</item></style>
</resources>
"""

STRINGSDICT = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
    <key>dogs</key>
    <dict>
        <key>NSStringLocalizedFormatKey</key>
        <string>%#@dogs@ in town</string>
        <key>dogs</key>
        <dict>
            <key>NSStringFormatSpecTypeKey</key>
            <string>NSStringPluralRuleType</string>
            <key>NSStringFormatValueTypeKey</key>
            <string>d</string>
            <key>one</key>
            <string>%d dog &amp; cat</string>
            <key>other</key>
            <string>%d dogs</string>
        </dict>
    </dict>
</dict>
</plist>
"""

LATEX = r"""\documentclass{article}
\usepackage{amsmath} % packages
\title{The big dog}
\newcommand{\dog}[1]{The dog #1}
\begin{document}
\maketitle
\section{A caf\'e in the \emph{red} house}\label{sec:x}
The dog\footnote{A note about the \emph{dog}.} sleeps in $x + y$ of 50\% houses, see~\cite{a,b} and \ref{sec:x}. % a comment
It is ``quoted'' --- and \textbf{bold {\em and italic}} text; \LaTeX\ too.

\begin{equation}
a = b \text{ if the dog sleeps}
\end{equation}
where the cat sleeps:
\begin{itemize}
  \item A cat
  \item[x] A dog \verb|code here| and \texttt{more code}
\end{itemize}
\begin{tabular}{lr}
Name & Big number \\ \hline
Dog & two cats \\[2pt]
\end{tabular}
\begin{verbatim}
The dog is code
\end{verbatim}
Stra{\ss}e \"uber \href{http://a.b/c_d}{the link} \unknown{some words here}.
\end{document}
not read
"""
