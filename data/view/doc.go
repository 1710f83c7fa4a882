// Package view shows played episodes to people: as one HTML page that needs
// nothing else, and as text for a terminal.
//
// What it shows was written by models and by environment servers, and is
// trusted nowhere: the page escapes it with html/template, forbids itself
// every request and every script but its own, and puts tokens into it as text
// nodes; the terminal gets no control characters. It reads no files and knows
// no tokenizer. A Page is for one goroutine.
package view
