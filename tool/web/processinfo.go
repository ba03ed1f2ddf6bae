package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"time"

	"seemalloc/tool/attach"
)

// processInfo tells which process the page shows.
type processInfo struct {
	Host    string `json:"host"`
	Command string `json:"command,omitempty"` // "" if only the socket is known
	Version string `json:"version"`           // of the library
	Started int64  `json:"started"`           // ms since 1970
}

// infoOf makes it from the process's statistics at that time.
func (p *Process) infoOf(stats *attach.Stats, at time.Time) *processInfo {
	info := &processInfo{Version: stats.Version, Started: at.UnixMilli() - stats.UptimeMS}
	info.Host, _ = os.Hostname()
	if p.PID != 0 {
		if found, err := attach.Find(p.PID); err == nil {
			info.Command = found.Command()
		}
	}
	return info
}

// info returns the info of the process, or that in the folder. It is nil without an error if an older tool wrote the
// folder.
func (s *Server) info() (*processInfo, error) {
	if s.process != nil {
		if info := s.watcher.processInfo(); info != nil {
			return info, nil
		}
		return nil, problem{http.StatusServiceUnavailable, errors.New("the process has not answered yet")}
	}
	answer, err := s.history.LastAnswer("process")
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info := new(processInfo)
	return info, json.Unmarshal(answer.(json.RawMessage), info)
}

func (s *Server) processInfo(url.Values) (any, error) { return s.info() }
