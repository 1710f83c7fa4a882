// Package view shows played episodes: as one self-contained HTML page, and as text
// for a terminal.
//
// Episodes contain text from models and environment servers and are untrusted. The
// page escapes it with html/template, forbids all requests and all scripts except
// page.js, and inserts tokens as text nodes. Terminals receive no control
// characters. The package reads no files and uses no tokenizer. A Page is not safe
// for concurrent use.
package view
