package manifest

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

func readIdentity(root object, m *Manifest) error {
	id, err := root.text("taskId")
	if err != nil {
		return err
	}
	// The library also reads braces, urn: and bare digits; a task id has one
	// spelling.
	if m.TaskID, err = uuid.Parse(id); err != nil || len(id) != 36 {
		return &Error{root.at("taskId"), "must be a UUID"}
	}
	if m.URL, err = root.text("url"); err != nil {
		return err
	}
	lower := strings.ToLower(m.URL)
	if !strings.HasPrefix(lower, "http://") && !strings.HasPrefix(lower, "https://") {
		return &Error{root.at("url"), "must be an http(s) URL"}
	}
	stamp, err := root.text("timestamp")
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return &Error{root.at("timestamp"), "must be an RFC 3339 time"}
	}
	m.Timestamp = at.UTC().Truncate(time.Microsecond)
	if root.has("correlationId") {
		correlation, err := root.anyText("correlationId")
		if err != nil {
			return err
		}
		if correlation != "" {
			m.CorrelationID = &correlation
		}
	}
	m.Labels, err = root.texts("labels")
	return err
}

func readArtifacts(root object, m *Manifest) error {
	artifacts, err := root.child("artifacts")
	if err != nil || artifacts.fields == nil || !artifacts.has("wacz") {
		return err
	}
	uri, err := artifacts.text("wacz")
	if err != nil {
		return err
	}
	location, err := ParseLocation(uri)
	if err != nil {
		return &Error{artifacts.at("wacz"), err.Error()}
	}
	m.WACZ = &location
	return nil
}

func readCompleteness(root object, m *Manifest) error {
	completeness, err := root.child("completeness")
	if err != nil || completeness.fields == nil {
		return err
	}
	for _, list := range []string{"bodylessUrls", "truncatedUrls"} {
		if _, err := completeness.texts(list); err != nil {
			return err
		}
	}
	m.Complete, err = completeness.flag("complete", m.Dialect)
	return err
}

func readSignature(root object, m *Manifest) error {
	signature, err := root.child("signature")
	if err != nil || signature.fields == nil {
		return err
	}
	m.Signed, err = signature.flag("signed", m.Dialect)
	return err
}

func readErrorDetails(root object, m *Manifest) error {
	details, err := root.child("errorDetails")
	if err != nil || !details.has("message") {
		return err
	}
	m.ErrorMessage, err = details.anyText("message")
	return err
}
