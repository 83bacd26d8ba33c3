package config

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// Service holds the settings that all five services share. Embed it in a
// service's own struct.
type Service struct {
	// GRPCAddress is where the gRPC server listens, host:port.
	GRPCAddress string `env:"GRPC_ADDRESS,required"`
	// DebugAddress is where metrics (/metrics), pprof (/debug/pprof/) and the
	// health pages (/livez, /readyz) are served, host:port. Keep it private.
	DebugAddress string `env:"DEBUG_ADDRESS,required"`
	// LogLevel is debug, info, warn or error.
	LogLevel string `env:"LOG_LEVEL" envDefault:"info"`
	// OTLPEndpoint is host:port of an OpenTelemetry collector (gRPC, plain
	// text); without it no trace is exported.
	OTLPEndpoint string `env:"OTLP_ENDPOINT"`

	// TLSCertFile, TLSKeyFile and TLSCAFile are paths of PEM files: the
	// service's own certificate and key, and the CA that signs its peers'. They
	// are read anew on every handshake, so renewing them needs no restart.
	TLSCertFile string `env:"TLS_CERT_FILE,required"`
	TLSKeyFile  string `env:"TLS_KEY_FILE,required"`
	TLSCAFile   string `env:"TLS_CA_FILE,required"`

	// DrainDelay is how long the service still serves after it has said that it
	// is not ready; ShutdownTimeout bounds all of the shutdown, drain included.
	DrainDelay      time.Duration `env:"DRAIN_DELAY" envDefault:"2s"`
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"20s"`
	// MaxConnectionAge bounds a client connection's life, so that clients meet
	// new replicas.
	MaxConnectionAge time.Duration `env:"MAX_CONNECTION_AGE" envDefault:"5m"`
}

// Validate checks what one field cannot say alone.
func (s Service) Validate(prefix string) error {
	if s.ShutdownTimeout <= 2*s.DrainDelay {
		return fmt.Errorf("%sSHUTDOWN_TIMEOUT (%s) must be longer than twice %sDRAIN_DELAY (%s)", prefix, s.ShutdownTimeout, prefix, s.DrainDelay)
	}
	if s.MaxConnectionAge < time.Second {
		return fmt.Errorf("%sMAX_CONNECTION_AGE (%s) must be at least 1s", prefix, s.MaxConnectionAge)
	}
	switch s.LogLevel {
	case "debug", "info", "warn", "error":
		return nil
	}
	return fmt.Errorf("%sLOG_LEVEL must be debug, info, warn or error, not %q", prefix, s.LogLevel)
}

// Database holds the settings of a connection to Postgres.
type Database struct {
	// URL is a postgres:// URL of the service's own role.
	URL string `env:"DATABASE_URL,required"`
	// Password is the role's password, from a file; it takes the place of one
	// in the URL, which is for local stacks only.
	Password string `env:"DATABASE_PASSWORD_FILE,file"`
	// MaxConns bounds the pool.
	MaxConns int32 `env:"DATABASE_MAX_CONNS" envDefault:"16"`
	// Mode is how statements are sent: "prepared" over a direct connection,
	// "exec" where a pooler in transaction mode stands in between.
	Mode string `env:"DATABASE_MODE" envDefault:"prepared"`
}

// Validate checks the URL's form and the mode, without printing the URL.
func (d Database) Validate(prefix string) error {
	u, err := url.Parse(d.URL)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return fmt.Errorf("%sDATABASE_URL must be a postgres:// URL", prefix)
	}
	if _, has := u.User.Password(); has && d.Password != "" {
		return fmt.Errorf("%sDATABASE_URL holds a password and %sDATABASE_PASSWORD_FILE is set: give one", prefix, prefix)
	}
	if d.Mode != "prepared" && d.Mode != "exec" {
		return fmt.Errorf("%sDATABASE_MODE must be prepared or exec, not %q", prefix, d.Mode)
	}
	if d.MaxConns < 2 {
		return fmt.Errorf("%sDATABASE_MAX_CONNS must be at least 2", prefix)
	}
	return nil
}

// Store holds the settings of the S3 endpoint as the service itself reaches it.
type Store struct {
	// Endpoint is the store's URL inside the cluster, http or https.
	Endpoint string `env:"S3_ENDPOINT,required"`
	// Region is required: asking the store for it would be a call at signing.
	Region string `env:"S3_REGION,required"`
	// Bucket is where BrowserHive writes.
	Bucket string `env:"S3_BUCKET,required"`
	// AccessKey and SecretKey come from files.
	AccessKey string `env:"S3_ACCESS_KEY_FILE,required,file"`
	SecretKey string `env:"S3_SECRET_KEY_FILE,required,file"`
}

// Validate checks the endpoint's form.
func (s Store) Validate(prefix string) error {
	return HTTPURL(prefix+"S3_ENDPOINT", s.Endpoint)
}

// OpenFGA holds the settings of the authorization engine. Store and model are
// pinned: a client without a pinned model follows whatever was written last.
type OpenFGA struct {
	APIURL  string `env:"OPENFGA_API_URL,required"`
	StoreID string `env:"OPENFGA_STORE_ID,required"`
	ModelID string `env:"OPENFGA_MODEL_ID,required"`
	// Token is the engine's preshared key, where it asks for one.
	Token string `env:"OPENFGA_TOKEN_FILE,file"`
	// Timeout bounds one call.
	Timeout time.Duration `env:"OPENFGA_TIMEOUT" envDefault:"3s"`
	// ListLimit and ListDeadline are the engine's own limits of a listing
	// (OPENFGA_LIST_OBJECTS_MAX_RESULTS and OPENFGA_LIST_OBJECTS_DEADLINE): it
	// stops there without saying so.
	ListLimit    int           `env:"OPENFGA_LIST_LIMIT" envDefault:"1000"`
	ListDeadline time.Duration `env:"OPENFGA_LIST_DEADLINE" envDefault:"3s"`
}

// Validate checks the URL's form.
func (o OpenFGA) Validate(prefix string) error {
	return HTTPURL(prefix+"OPENFGA_API_URL", o.APIURL)
}

// HTTPURL says whether value is an absolute http(s) URL; the error names the
// setting and not its value, which may hold a secret.
func HTTPURL(name, value string) error {
	u, err := url.Parse(value)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("%s must be an absolute http:// or https:// URL", name)
	}
	return nil
}

// trimSecrets drops the line break that editors put at a secret file's end.
func trimSecrets(settings any) {
	v := reflect.Indirect(reflect.ValueOf(settings))
	for i := range v.NumField() {
		field := v.Field(i)
		switch {
		case field.Kind() == reflect.Struct:
			if field.CanAddr() && field.Addr().CanInterface() {
				trimSecrets(field.Addr().Interface())
			}
		case field.Kind() == reflect.String && strings.Contains(v.Type().Field(i).Tag.Get("env"), ",file"):
			field.SetString(strings.TrimRight(field.String(), "\r\n"))
		}
	}
}
