package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
)

// A folder also stores the last profile of each other kind and the last map, so that all views work after the process
// has ended. They are taken one after the other, whether or not a page shows them.

const (
	storeInterval     = time.Minute // minimum time between two profiles of one kind
	storedProfileName = "profile "  // prefix of the names of answers, followed by the kind
	storedMapName     = "map"
)

// StoreProfile stores the last profile of a kind, which is shown after the process has ended.
func (h *History) StoreProfile(kind string, p *profile.Profile) {
	data := h.disk.encoded(p)
	if data == nil {
		return
	}
	h.disk.setWriteResult(storedProfileName+kind, h.disk.store.StoreAnswer(storedProfileName+kind, data))
}

// storedProfile returns the stored profile of a kind.
func (h *History) storedProfile(kind string) (*profile.Profile, error) {
	if h.disk == nil {
		return nil, badRequest("saved profiles are shown: there is no process to query")
	}
	data, err := h.disk.store.LastAnswer(storedProfileName + kind)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, problem{http.StatusNotFound, fmt.Errorf("%s: no profile of this kind was stored while the process was observed", kind)}
	}
	p, err := profile.ParseData(data)
	if err != nil {
		return nil, fmt.Errorf("%s: the %s profile in it is damaged: %w", h.disk.store.Dir(), kind, err)
	}
	return p, nil
}

// StoredKinds returns the kinds of which the folder has a profile. heap is always one of them.
func (h *History) StoredKinds(all []Kind) ([]Kind, error) {
	notes, err := h.disk.store.AnswerNames()
	if err != nil {
		return nil, err
	}
	all = slices.Clone(all)
	for i, kind := range all { // a folder of version 0.1
		const present, old = "expansion", "growth"
		if kind.Name == present && !slices.Contains(notes, storedProfileName+present) && slices.Contains(notes, storedProfileName+old) {
			all[i].Name = old
		}
	}
	return slices.DeleteFunc(all, func(kind Kind) bool {
		return kind.Name != "heap" && !slices.Contains(notes, storedProfileName+kind.Name)
	}), nil
}

// hasNote reports whether the folder has an answer with this name.
func (h *History) hasNote(name string) bool {
	notes, err := h.disk.store.AnswerNames()
	return err == nil && slices.Contains(notes, name)
}

// storeOtherKinds cycles through the kinds until the process ends. After each query it waits for a multiple of the
// query's duration, as for a page, so that the queries together take only their share of the process's time.
func (s *Server) storeOtherKinds() {
	var kinds []string
	for _, kind := range s.options.Kinds {
		if kind.Name != "heap" {
			kinds = append(kinds, kind.Name)
		}
	}
	looks := len(kinds) + 1
	for round := 0; ; round++ {
		for _, kind := range append(slices.Clone(kinds), storedMapName) {
			began := time.Now()
			elapsed := s.storeKind(kind)
			wait := max(momentShare*elapsed, toolShare*time.Since(began))
			if round > 0 { // no minimum wait in the first round, because the process may end soon
				wait = max(wait, storeInterval/time.Duration(looks))
			}
			select {
			case <-s.watcher.Ended():
				return
			case <-time.After(wait):
			}
		}
	}
}

// storeKind returns the time for which the process was busy; 0: it was not queried.
func (s *Server) storeKind(name string) time.Duration {
	if name != storedMapName {
		_, elapsed, _ := s.profileInWindow(name)
		return elapsed
	}
	meter := attach.StartMeter(s.process.PID)
	sums, err := s.mapOfAll(url.Values{})
	elapsed := meter.Busy()
	if err == nil {
		s.history.StoreAnswer(storedMapName, sums)
	}
	return elapsed
}

// isMissing reports whether the error means that an older library, or a folder written with it, does not have this
// profile.
func isMissing(err error) bool {
	var refused *attach.ServerError
	var known problem
	return errors.As(err, &refused) || errors.As(err, &known) && known.status == http.StatusNotFound
}
