package store

import "fmt"

// freeSpace thins out old data until this many additional bytes fit. The database file keeps its size, and freed space
// in it is reused. The lock is held.
func (s *Store) freeSpace(more int64) error {
	if s.limit == 0 {
		return nil // opened for reading
	}
	for {
		var pages, free int64
		if err := s.db.QueryRow("SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count").Scan(&pages, &free); err != nil {
			return s.explain(err)
		}
		// A sixteenth is reserved for the inner pages of tables.
		space := s.databaseBytes()/16*15 - (pages-free)*pageBytes
		if more < space {
			return nil
		}
		if s.pointBytes == 0 && len(s.moments) <= 2 {
			return fmt.Errorf("%s: the folder has reached its size limit (%d bytes)", s.dir, s.limit)
		}
		var err error
		if s.pointBytes > s.databaseBytes()/pointsPart || len(s.moments) <= 2 {
			err = s.thinPoints()
		} else {
			err = s.evictMoment()
		}
		if err != nil {
			return s.explain(err)
		}
	}
}

// thinPoints deletes every other point of the older half, like the history in memory.
func (s *Store) thinPoints() error {
	_, err := s.db.Exec(`DELETE FROM points WHERE t IN (SELECT t FROM (SELECT t, row_number() OVER (ORDER BY t) AS n FROM points)
		WHERE n % 2 = 0 AND n <= (SELECT count(*) / 2 + 2 FROM points))`)
	if err != nil {
		return err
	}
	before := s.pointBytes
	if err := s.db.QueryRow("SELECT coalesce(sum(length(data)), 0) FROM points").Scan(&s.pointBytes); err == nil && s.pointBytes == before {
		s.pointBytes = 0 // one point is left
	}
	return err
}

// evictMoment deletes the moment with the smallest distance between its neighbours, relative to its age (like
// web.History). The first moment, the last one and those requested by the user are kept as long as there are others.
func (s *Store) evictMoment() error {
	now := s.moments[len(s.moments)-1].Time
	best, minimum := 1, 0.0
	for i, found := 1, false; i < len(s.moments)-1; i++ {
		m := s.moments[i]
		if m.Pinned {
			continue
		}
		gap := float64(s.moments[i+1].Time-s.moments[i-1].Time) / float64(max(now-m.Time, 0)+1000)
		if !found || gap < minimum {
			best, minimum, found = i, gap, true
		}
	}
	if _, err := s.db.Exec("DELETE FROM moments WHERE id = ?", s.moments[best].ID); err != nil {
		return err
	}
	s.moments = append(s.moments[:best], s.moments[best+1:]...)
	return nil
}
