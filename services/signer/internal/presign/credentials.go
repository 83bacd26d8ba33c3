package presign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// reloadEvery is how soon renewed credentials are in use.
const reloadEvery = 5 * time.Second

// Credentials sign URLs.
type Credentials struct {
	AccessKey, SecretKey, SessionToken string
	// Expires is zero for credentials without an end.
	Expires time.Time
}

// Files keeps the credentials that stand in the settings' files, and reads
// them again and again. It is safe for concurrent use.
type Files struct {
	settings Settings
	log      *zap.Logger
	now      func() time.Time

	mu      sync.Mutex
	current Credentials
	failed  error
}

// NewFiles reads the files for the first time. Files that cannot be read are
// an error: a setting is wrong.
func NewFiles(settings Settings, log *zap.Logger, now func() time.Time) (*Files, error) {
	f := &Files{settings: settings, log: log, now: now}
	if err := f.Reload(); err != nil {
		return nil, err
	}
	return f, nil
}

// Current returns what the files held at the last look. Credentials that could
// not be read again stay in use for as long as they live.
func (f *Files) Current() Credentials {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current
}

// Run looks at the files until ctx ends.
func (f *Files) Run(ctx context.Context) error {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := f.Reload(); err != nil {
			f.log.Warn("reading the store's credentials again", zap.Error(err))
		}
	}
}

// Reload looks at the files now.
func (f *Files) Reload() error {
	creds, err := f.read()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = err
	if err == nil {
		f.current = creds
	}
	return err
}

// Check is the credentials' part of the service's health.
func (f *Files) Check(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current.Expires.IsZero() || f.current.Expires.Sub(f.now()) >= minRemaining {
		return nil
	}
	if f.failed != nil {
		return fmt.Errorf("the store's credentials ended at %s and no new ones can be read: %w", f.current.Expires.Format(time.RFC3339), f.failed)
	}
	return fmt.Errorf("the store's credentials end at %s: renew the files of S3_ACCESS_KEY_FILE and S3_CREDENTIALS_EXPIRY_FILE", f.current.Expires.Format(time.RFC3339))
}

// read takes the files together: read twice alike, they were not being renewed
// in between, so an old key never meets a new secret.
func (f *Files) read() (Credentials, error) {
	first, err := f.readOnce()
	if err != nil {
		return Credentials{}, err
	}
	second, err := f.readOnce()
	if err != nil {
		return Credentials{}, err
	}
	if first != second {
		return Credentials{}, errors.New("the store's credentials are just being renewed")
	}
	return first, nil
}

func (f *Files) readOnce() (Credentials, error) {
	var creds Credentials
	var expires string
	for _, file := range []struct {
		setting, path string
		into          *string
	}{
		{"S3_ACCESS_KEY_FILE", f.settings.AccessKeyFile, &creds.AccessKey},
		{"S3_SECRET_KEY_FILE", f.settings.SecretKeyFile, &creds.SecretKey},
		{"S3_SESSION_TOKEN_FILE", f.settings.SessionTokenFile, &creds.SessionToken},
		{"S3_CREDENTIALS_EXPIRY_FILE", f.settings.ExpiryFile, &expires},
	} {
		if file.path == "" {
			continue
		}
		text, err := os.ReadFile(file.path)
		if err != nil {
			return Credentials{}, fmt.Errorf("%s: %w", file.setting, err)
		}
		if *file.into = strings.TrimSpace(string(text)); *file.into == "" {
			return Credentials{}, fmt.Errorf("%s names an empty file", file.setting)
		}
	}
	if expires == "" {
		return creds, nil
	}
	at, err := time.Parse(time.RFC3339, expires)
	if err != nil {
		return Credentials{}, errors.New("S3_CREDENTIALS_EXPIRY_FILE must hold one RFC 3339 time")
	}
	creds.Expires = at.UTC()
	return creds, nil
}
