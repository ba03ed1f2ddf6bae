package store

import (
	"database/sql"
	"errors"
	"fmt"
)

// StoreAnswer stores the last answer with this name, for the current run.
func (s *Store) StoreAnswer(name string, data []byte) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if limit := s.limit / notePart; int64(len(data)) > limit {
		return fmt.Errorf("%s: %s of %d bytes is too large: the limit of the folder is %d bytes; raise it with --store-size", s.dir, name, len(data), s.limit)
	}
	if err := s.freeSpace(int64(len(data))); err != nil {
		return err
	}
	_, err := s.db.Exec("INSERT OR REPLACE INTO notes(name, data) VALUES(?, ?)", name, data)
	return s.explain(err)
}

// LastAnswer returns the last answer with this name, for the last run, or nil if there is none.
func (s *Store) LastAnswer(name string) ([]byte, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var data []byte
	err := s.db.QueryRow("SELECT data FROM notes WHERE name = ?", name).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return data, s.explain(err)
}

// AnswerNames returns the names of the stored answers of the last run.
func (s *Store) AnswerNames() ([]string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	rows, err := s.db.Query("SELECT name FROM notes ORDER BY name")
	if err != nil {
		return nil, s.explain(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, s.explain(err)
		}
		names = append(names, name)
	}
	return names, s.explain(rows.Err())
}
