package browserhive

import (
	"strings"
	"time"
)

// The statuses of a capture, dialect C.
const (
	statusSuccess   = "success"
	statusFailed    = "failed"
	statusTimeout   = "timeout"
	statusHTTPError = "http_error"
)

// The types of an error, dialect C.
const (
	errorHTTP         = "http"
	errorTimeout      = "timeout"
	errorConnection   = "connection"
	errorInternal     = "internal"
	errorArtifactSink = "artifact_sink"
	errorCancelled    = "cancelled"
)

// manifest is a capture's result, dialect C (v12 and later).
type manifest struct {
	TaskID           string            `json:"taskId"`
	CorrelationID    string            `json:"correlationId,omitempty"`
	URL              string            `json:"url"`
	Labels           []string          `json:"labels"`
	Status           string            `json:"status"`
	HTTPStatusCode   int               `json:"httpStatusCode,omitempty"`
	Timestamp        time.Time         `json:"timestamp"`
	ProcessingTimeMS int64             `json:"captureProcessingTimeMs"`
	Artifacts        map[string]string `json:"artifacts"`
	Stats            *waczStats        `json:"waczStats,omitempty"`
	Completeness     *completeness     `json:"completeness,omitempty"`
	Signature        *signature        `json:"signature,omitempty"`
	Error            *errorDetails     `json:"errorDetails,omitempty"`
}

type waczStats struct {
	TotalRecorded          int   `json:"totalRecorded"`
	TotalTruncatedTooLarge int   `json:"totalTruncatedTooLarge"`
	TotalFailed            int   `json:"totalFailed"`
	TotalBodyBytes         int64 `json:"totalBodyBytes"`
}

// completeness says what is missing in the archive.
type completeness struct {
	BodylessURLs  []string `json:"bodylessUrls"`
	TruncatedURLs []string `json:"truncatedUrls"`
	Complete      bool     `json:"complete"`
}

type signature struct {
	Signed bool   `json:"signed"`
	Reason string `json:"reason,omitempty"`
}

type errorDetails struct {
	Type           string `json:"type"`
	Message        string `json:"message"`
	HTTPStatusCode int    `json:"httpStatusCode,omitempty"`
	HTTPStatusText string `json:"httpStatusText,omitempty"`
	TimeoutMS      int64  `json:"timeoutMs,omitempty"`
}

// linksFile is the content of .links.json.
type linksFile struct {
	TaskID        string    `json:"taskId"`
	URL           string    `json:"url"`
	FinalURL      string    `json:"finalUrl"`
	Labels        []string  `json:"labels"`
	CorrelationID string    `json:"correlationId,omitempty"`
	CapturedAt    time.Time `json:"capturedAt"`
	Links         []link    `json:"links"`
}

// fileName is {taskId}_{correlationId}[_{labels}].{ext}. Without a correlation
// id its place stays empty, as in v12. Separators inside a label are written
// %XX.
func fileName(taskID, correlationID string, labels []string, ext string) string {
	parts := []string{taskID, pathSeparators.Replace(correlationID)}
	for _, label := range labels {
		parts = append(parts, labelSeparators.Replace(label))
	}
	return strings.Join(parts, "_") + "." + ext
}

var (
	pathSeparators  = strings.NewReplacer("/", "%2F", `\`, "%5C")
	labelSeparators = strings.NewReplacer("/", "%2F", `\`, "%5C", "_", "%5F")
)
