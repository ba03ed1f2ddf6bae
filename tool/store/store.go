// Package store stores the data that `seemalloc web` has collected about a process: points (one per second), heap
// profiles, and the last answer of the process to each other kind of request. It uses one directory of limited size.
// Only one tool can use the directory at a time.
//
// Each write is a transaction in SQLite's write-ahead log. It is durable when the call returns, whatever happens to the
// tool afterwards; a power failure may lose the last seconds but nothing else. The store does not interpret points and
// profiles: to it they are bytes with a time. Safe for concurrent use.
package store

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	file          = "history.db"
	applicationID = 0x53656d61 // "Sema": distinguishes our files from other databases
	version       = 1          // of the tables below
)

// Sizes: three quarters of the limit are the maximum size of the database; an eighth is the maximum size of a profile,
// which may be in the log as well; the log uses the rest.
const (
	MinSize     = 16 << 20
	DefaultSize = 256 << 20
	logPages    = 256 // log size at which it is copied to the database
	pageBytes   = 4096
	pointsPart  = 4  // points use at most this fraction (1/n) of the database
	notePart    = 32 // an answer uses at most this fraction (1/n) of the limit
	lockPause   = 50 * time.Millisecond
	lockTries   = 20 // a killed tool may hold the directory for a moment until it has ended
)

const tables = `
CREATE TABLE runs(id INTEGER PRIMARY KEY, t INTEGER NOT NULL, title TEXT NOT NULL, pid INTEGER NOT NULL);
CREATE TABLE points(t INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE moments(id INTEGER PRIMARY KEY, t INTEGER NOT NULL, inuse INTEGER NOT NULL, asked INTEGER NOT NULL, run INTEGER NOT NULL, profile BLOB NOT NULL);
CREATE TABLE notes(name TEXT PRIMARY KEY, data BLOB NOT NULL);`

// Moment is a stored heap profile. Times are ms since 1970.
type Moment struct {
	ID     int
	Time   int64
	InUse  int64
	Pinned bool // requested by the user: kept while others are deleted
	Run    int
}

// Run is a process that was observed.
type Run struct {
	ID    int
	Time  int64
	Title string
	PID   int
}

// Store is an open directory.
type Store struct {
	dir   string
	limit int64
	lock  *os.File
	db    *sql.DB // one connection

	mutex      sync.Mutex
	moments    []Moment // all stored moments, the oldest first
	pointBytes int64
}

// Create opens the directory for writing, creates it if it does not exist, and limits its size to limit bytes.
func Create(dir string, limit int64) (*Store, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(dir, 0o700)
	case err == nil && len(entries) > 0 && !isStore(dir):
		return nil, fmt.Errorf("%s: holds other files: expected a new or empty folder, or one that seemalloc has written", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, reason(err))
	}
	return open(dir, max(limit, MinSize))
}

// Open opens an existing store.
func Open(dir string) (*Store, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, reason(err))
	}
	if !isStore(dir) {
		return nil, fmt.Errorf("%s: there is no %s in it: expected a folder that `seemalloc web --store` has written", dir, file)
	}
	return open(dir, 0)
}

// isStore also accepts the directory of a tool that was killed before its first write, which holds only a lock.
func isStore(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
		return true
	}
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 1 && entries[0].Name() == "lock"
}

// reason returns an error without its path, because the message already starts with the path.
func reason(err error) error {
	var where *fs.PathError
	if errors.As(err, &where) {
		return where.Err
	}
	return err
}

func open(dir string, limit int64) (*Store, error) {
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, limit: limit, lock: lock}
	if err := s.openDatabase(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// lockDir locks the directory for this tool. The kernel releases the lock when the tool ends for any reason.
func lockDir(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot be opened for writing: %w", dir, reason(err))
	}
	for tries := 0; ; tries++ {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || tries == lockTries {
			break
		}
		time.Sleep(lockPause)
	}
	read := make([]byte, 20)
	n, _ := lock.ReadAt(read, 0)
	owner := strings.TrimSpace(string(read[:n]))
	_, notAPid := strconv.ParseUint(owner, 10, 32)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = fmt.Errorf("%s: is in use by another seemalloc (pid %s): end that one, or choose another folder", dir, owner)
	case err != nil:
		err = fmt.Errorf("%s: cannot be locked: %w", dir, err)
	case n > 0 && notAPid != nil:
		err = fmt.Errorf("%s: not a seemalloc file, left unchanged: expected an empty file or a process id; choose another folder", lock.Name())
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	_ = lock.Truncate(0)
	_, _ = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return lock, nil
}

func (s *Store) openDatabase() error {
	// Other users must not read the database either, because function names may be confidential.
	path := filepath.Join(s.dir, file)
	created, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%s: %w", path, reason(err))
	}
	created.Close()
	query := url.Values{"_pragma": {"journal_mode(wal)", "synchronous(normal)", "busy_timeout(2000)", fmt.Sprintf("wal_autocheckpoint(%d)", logPages)}}
	if s.limit > 0 {
		query["_pragma"] = append(query["_pragma"], fmt.Sprintf("journal_size_limit(%d)", s.limit/16), fmt.Sprintf("max_page_count(%d)", s.databaseBytes()/pageBytes))
	}
	if s.db, err = sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+query.Encode()); err != nil {
		return err
	}
	s.db.SetMaxOpenConns(1)
	var id, found int
	if err := s.db.QueryRow("SELECT application_id, user_version FROM pragma_application_id, pragma_user_version").Scan(&id, &found); err != nil {
		return s.explain(err)
	}
	switch {
	case id == 0 && found == 0:
		err = s.createTables()
	case id != applicationID:
		err = fmt.Errorf("%s: is a database of another program: expected one that `seemalloc web --store` has written", path)
	case found > version:
		err = fmt.Errorf("%s: was written by a newer seemalloc (format %d; this one reads up to %d): use that one, or another folder", s.dir, found, version)
	}
	if err != nil {
		return err
	}
	var verdict string
	if err := s.db.QueryRow("PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return s.explain(err)
	}
	if verdict != "ok" {
		return s.damaged(verdict)
	}
	return s.explain(s.load())
}

func (s *Store) createTables() error {
	var tables_ int
	if err := s.db.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&tables_); err != nil {
		return s.explain(err)
	}
	if tables_ > 0 {
		return fmt.Errorf("%s: is a database of another program: expected one that `seemalloc web --store` has written", filepath.Join(s.dir, file))
	}
	// One transaction: a tool killed here leaves an empty file.
	_, err := s.db.Exec(fmt.Sprintf("BEGIN; %s PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", tables, applicationID, version))
	return s.explain(err)
}

func (s *Store) load() error {
	if err := s.db.QueryRow("SELECT coalesce(sum(length(data)), 0) FROM points").Scan(&s.pointBytes); err != nil {
		return err
	}
	rows, err := s.db.Query("SELECT id, t, inuse, asked, run FROM moments ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var m Moment
		if err := rows.Scan(&m.ID, &m.Time, &m.InUse, &m.Pinned, &m.Run); err != nil {
			return err
		}
		s.moments = append(s.moments, m)
	}
	return rows.Err()
}

// explain converts SQLite's errors to readable ones.
func (s *Store) explain(err error) error {
	var reported *sqlite.Error
	if err == nil || !errors.As(err, &reported) {
		return err
	}
	switch reported.Code() & 0xff {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return s.damaged(reported.Error())
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%s: the disk is full, or the folder has reached its size limit", s.dir)
	}
	return fmt.Errorf("%s: %w", s.dir, err)
}

func (s *Store) damaged(what string) error {
	return fmt.Errorf("%s: is damaged (%s): its contents cannot be trusted: choose another folder, or remove this one", filepath.Join(s.dir, file), strings.TrimSpace(what))
}

// Close closes the directory.
func (s *Store) Close() error {
	var err error
	if s.db != nil {
		err = s.explain(s.db.Close())
	}
	s.lock.Close()
	return err
}

func (s *Store) databaseBytes() int64 { return s.limit / 4 * 3 }

// Dir returns the directory.
func (s *Store) Dir() string { return s.dir }

// Begin starts the run of a process and returns its id. It deletes the answers of the previous run, which belong to
// another process.
func (s *Store) Begin(now int64, title string, pid int) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	both, err := s.db.Begin()
	if err != nil {
		return 0, s.explain(err)
	}
	defer both.Rollback() // no effect after the commit
	done, err := both.Exec("INSERT INTO runs(t, title, pid) VALUES(?, ?, ?)", now, title, pid)
	if err == nil {
		_, err = both.Exec("DELETE FROM notes")
	}
	if err == nil {
		err = both.Commit()
	}
	if err != nil {
		return 0, s.explain(err)
	}
	id, err := done.LastInsertId()
	return int(id), err
}

// LastRun returns the process that was observed last, or nil if there is none.
func (s *Store) LastRun() (*Run, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var r Run
	err := s.db.QueryRow("SELECT id, t, title, pid FROM runs ORDER BY id DESC LIMIT 1").Scan(&r.ID, &r.Time, &r.Title, &r.PID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &r, s.explain(err)
}

// AddPoint stores the point for time t.
func (s *Store) AddPoint(t int64, data []byte) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := s.freeSpace(int64(len(data))); err != nil {
		return err
	}
	if _, err := s.db.Exec("INSERT OR REPLACE INTO points(t, data) VALUES(?, ?)", t, data); err != nil {
		return s.explain(err)
	}
	s.pointBytes += int64(len(data))
	return nil
}

// AddMoment stores a profile under its own id, which must be new.
func (s *Store) AddMoment(m Moment, profile []byte) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if limit := s.limit / 8; int64(len(profile)) > limit {
		return fmt.Errorf("%s: a profile of %d bytes is too large: the limit of the folder is %d bytes; raise it with --store-size", s.dir, len(profile), s.limit)
	}
	if err := s.freeSpace(int64(len(profile))); err != nil {
		return err
	}
	_, err := s.db.Exec("INSERT INTO moments(id, t, inuse, asked, run, profile) VALUES(?, ?, ?, ?, ?, ?)", m.ID, m.Time, m.InUse, m.Pinned, m.Run, profile)
	if err != nil {
		return s.explain(err)
	}
	s.moments = append(s.moments, m)
	return nil
}

// Points returns at most limit points of a time range. If there are more, it selects them evenly, including the first
// and the last.
func (s *Store) Points(from, until int64, limit int) ([][]byte, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var count int
	if err := s.db.QueryRow("SELECT count(*) FROM points WHERE t BETWEEN ? AND ?", from, until).Scan(&count); err != nil {
		return nil, s.explain(err)
	}
	step := max(1, (count+limit-2)/max(limit-1, 1))
	rows, err := s.db.Query(`SELECT data FROM (SELECT data, row_number() OVER (ORDER BY t) AS n FROM points WHERE t BETWEEN ? AND ?)
		WHERE n % ? = 0 OR n = 1 OR n = ? ORDER BY n`, from, until, step, count)
	if err != nil {
		return nil, s.explain(err)
	}
	defer rows.Close()
	var out [][]byte
	for rows.Next() {
		var data []byte
		if err := rows.Scan(&data); err != nil {
			return nil, s.explain(err)
		}
		out = append(out, data)
	}
	return out, s.explain(rows.Err())
}

// Moments lists at most limit moments of a time range and a run (0: any). If there are more, it selects them evenly,
// and prefers those requested by the user.
func (s *Store) Moments(run int, from, until int64, limit int) []Moment {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var within, asked []Moment
	for _, m := range s.moments {
		switch {
		case m.Time < from || m.Time > until || run != 0 && m.Run != run:
		case m.Pinned:
			asked = append(asked, m)
		default:
			within = append(within, m)
		}
	}
	out := sampleEvenly(asked, limit)
	out = append(out, sampleEvenly(within, limit-len(out))...)
	slices.SortFunc(out, func(a, b Moment) int { return a.ID - b.ID })
	return out
}

// sampleEvenly selects at most limit moments, including the first and the last.
func sampleEvenly(all []Moment, limit int) []Moment {
	if len(all) <= limit {
		return slices.Clone(all)
	}
	var out []Moment
	for i := range limit {
		out = append(out, all[i*(len(all)-1)/max(limit-1, 1)])
	}
	return out
}

// Moment finds a moment by its id.
func (s *Store) Moment(id int) (Moment, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	i, found := slices.BinarySearchFunc(s.moments, id, func(m Moment, id int) int { return m.ID - id })
	if !found {
		return Moment{}, false
	}
	return s.moments[i], true
}

// Pin marks a moment as requested by the user, so that it is kept while others are deleted. It returns false if there
// was nothing to write, for example because the moment has already been deleted, which is not an error.
func (s *Store) Pin(id int) (written bool, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	i, found := slices.BinarySearchFunc(s.moments, id, func(m Moment, id int) int { return m.ID - id })
	if !found || s.moments[i].Pinned || s.limit == 0 {
		return false, nil
	}
	if _, err := s.db.Exec("UPDATE moments SET asked = 1 WHERE id = ?", id); err != nil {
		return false, s.explain(err)
	}
	s.moments[i].Pinned = true
	return true, nil
}

// LastID returns the id of the last moment, or 0 if there is none.
func (s *Store) LastID() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.moments) == 0 {
		return 0
	}
	return s.moments[len(s.moments)-1].ID
}

// Profile reads the profile of a moment.
func (s *Store) Profile(id int) ([]byte, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var data []byte
	if err := s.db.QueryRow("SELECT profile FROM moments WHERE id = ?", id).Scan(&data); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("profile %d has been deleted to make room for newer ones", id)
		}
		return nil, s.explain(err)
	}
	return data, nil
}
