// Package report reads the folders of training runs and shows them: as one
// self-contained HTML page with curves, tables and the configuration, as text, and as a
// comparison.
//
// It reads only files and never changes a folder, so it can read a run that is still
// training. It knows no models and no configuration schema: config.toml is read as a
// table of keys, so that the folders of older versions still open. Package cli/dashboard
// adds live updates to the page.
//
// A Run is not safe for concurrent use.
package report
