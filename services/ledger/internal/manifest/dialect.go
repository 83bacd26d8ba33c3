package manifest

// statuses lists every spelling. Those that A and C share are told apart by the
// fields that only A requires.
var statuses = map[string]struct {
	dialect Dialect // empty: A or C
	status  Status
}{
	"success":                   {"", StatusSuccess},
	"failed":                    {"", StatusFailed},
	"timeout":                   {"", StatusTimeout},
	"httpError":                 {DialectA, StatusHTTPError},
	"http_error":                {DialectC, StatusHTTPError},
	"CAPTURE_STATUS_SUCCESS":    {DialectB, StatusSuccess},
	"CAPTURE_STATUS_FAILED":     {DialectB, StatusFailed},
	"CAPTURE_STATUS_TIMEOUT":    {DialectB, StatusTimeout},
	"CAPTURE_STATUS_HTTP_ERROR": {DialectB, StatusHTTPError},
}

// onlyA are the fields that A requires and C does not. A manifest of C may
// still carry one of them (unknown fields pass), so all must be there.
var onlyA = []string{"labels", "retryCount", "workerIndex", "artifacts"}

func recognise(root object) (Dialect, Status, error) {
	word, err := root.text("status")
	if err != nil {
		return "", "", err
	}
	known, ok := statuses[word]
	if !ok {
		return "", "", &Error{root.at("status"), "must be a status of one of the three dialects"}
	}
	if known.dialect != "" {
		return known.dialect, known.status, nil
	}
	for _, name := range onlyA {
		if !root.has(name) {
			return DialectC, known.status, nil
		}
	}
	return DialectA, known.status, nil
}

// readRequired checks what the dialect requires beyond what is read anyway.
func readRequired(root object, m *Manifest) error {
	if m.Dialect == DialectA {
		for _, name := range onlyA {
			if !root.has(name) {
				return &Error{root.at(name), "is required"}
			}
		}
		for _, name := range []string{"retryCount", "workerIndex"} {
			if err := root.count(name, false); err != nil {
				return err
			}
		}
	}
	// Protobuf JSON drops a zero and spells 64-bit integers as text.
	if m.Dialect == DialectB && !root.has("captureProcessingTimeMs") {
		return nil
	}
	return root.count("captureProcessingTimeMs", m.Dialect == DialectB)
}
