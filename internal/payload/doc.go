// Package payload owns the one-file form of the program: a static launcher followed by a compressed archive of the program and
// its native libraries, and the folder of the user's cache into which the launcher unpacks the archive.
//
// The archive is a tar file with one folder, which contains only folders and regular files, compressed with zstd. A trailer
// of fixed size at the end of the executable gives its place, its sizes and its SHA-256. Programs are unpacked into the
// folder "programs" of the cache, one folder per archive, named after its SHA-256, so several versions coexist. A folder is
// complete if it contains the file .complete, the list of its files; the folder gets its name only then, and its files never
// change. A running program holds a shared lock on .complete, so Prune keeps it.
package payload
