package fga

import (
	"strings"
	"time"
)

// Tuple is one relationship as an outbox payload spells it.
type Tuple struct {
	User      string     `json:"user"`
	Relation  string     `json:"relation"`
	Object    string     `json:"object"`
	Condition *Condition `json:"condition,omitempty"`
}

// Condition is a condition of the model with the part of its context that is
// stored with the tuple.
type Condition struct {
	Name    string         `json:"name"`
	Context map[string]any `json:"context,omitempty"`
}

// Key is the tuple without its condition: two tuples of one key cannot both
// stand in the engine, nor in one request.
func (t Tuple) Key() Key { return Key{User: t.User, Relation: t.Relation, Object: t.Object} }

// Key names a tuple.
type Key struct {
	User     string `json:"user"`
	Relation string `json:"relation"`
	Object   string `json:"object"`
}

// The model's objects, by the ids that the ledger and the tokens know.

// User is a person or a service, by the token's subject.
func User(subject string) string { return "user:" + subject }

// Organization is one by its name.
func Organization(name string) string { return "organization:" + name }

// CaptureJob is one by its task id.
func CaptureJob(taskID string) string { return "capture_job:" + strings.ToLower(taskID) }

// Archive is one by its id.
func Archive(id string) string { return "archive:" + strings.ToLower(id) }

// CaptureTuples are the tuples of an admitted archive: the job that made it, the
// organization that the job belongs to and who owns it. Where nobody asked for
// the capture in person (submitter is ""), the organization's admins are its
// caretakers. Admission queues them and the audit expects them.
func CaptureTuples(archiveID, taskID, organization, submitter string) []Tuple {
	job := CaptureJob(taskID)
	tuples := []Tuple{
		{User: job, Relation: "parent", Object: Archive(archiveID)},
		{User: Organization(organization), Relation: "parent", Object: job},
	}
	if submitter == "" {
		return append(tuples, Tuple{User: Organization(organization) + "#admin", Relation: "caretaker", Object: job})
	}
	return append(tuples, Tuple{User: User(submitter), Relation: "owner", Object: job})
}

// ShareTuple lets subject view an archive from granted until granted+length.
func ShareTuple(archiveID, subject string, granted time.Time, length time.Duration) Tuple {
	return Tuple{
		User: User(subject), Relation: "viewer", Object: Archive(archiveID),
		Condition: &Condition{Name: "non_expired_grant", Context: map[string]any{
			"grant_time":     Timestamp(granted),
			"grant_duration": length.String(),
		}},
	}
}

// Timestamp spells a time for a condition's context. There is one spelling
// everywhere, because the engine takes the same instant spelled otherwise for
// another condition.
func Timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
