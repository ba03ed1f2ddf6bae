package web

import (
	"net/url"
	"slices"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// requestRow holds the requests since the start that got blocks of one size, estimated from samples, freed or not.
type requestRow struct {
	Size      int64 `json:"size"` // of the blocks: their size class, or whole pages
	Count     int64 `json:"count"`
	Bytes     int64 `json:"bytes"`
	Requested int64 `json:"requested"` // the difference is lost by rounding
}

// requests returns the rows, the smallest block size first. For a folder it returns none if no page has requested them.
func (s *Server) requests(url.Values) (any, error) {
	churn, err := s.profileOfKind("churn")
	if s.process == nil && s.history.disk != nil && isMissing(err) {
		answer, err := s.history.LastAnswer("requests") // from a folder of an older tool
		if isMissing(err) {
			return []requestRow{}, nil
		}
		return answer, err
	}
	if err != nil {
		return nil, err
	}
	return requestsOf(churn)
}

func requestsOf(churn *profile.Profile) ([]requestRow, error) {
	var columns [3]int
	for i, name := range []string{"alloc_objects", "alloc_space", "requested_space"} {
		index, err := report.SampleIndex(churn, name, "")
		if err != nil {
			return nil, err
		}
		columns[i] = index
	}
	found := map[int64]*requestRow{}
	for _, sample := range churn.Sample {
		sizes := sample.NumLabel["bytes"]
		if len(sizes) == 0 {
			continue
		}
		row := found[sizes[0]]
		if row == nil {
			row = &requestRow{Size: sizes[0]}
			found[sizes[0]] = row
		}
		row.Count += sample.Value[columns[0]]
		row.Bytes += sample.Value[columns[1]]
		row.Requested += sample.Value[columns[2]]
	}
	rows := []requestRow{}
	for _, row := range found {
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b requestRow) int { return int(a.Size - b.Size) })
	return rows, nil
}
