package windmill

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/google/uuid"
)

const (
	// maxInputBytes bounds a webhook's body.
	maxInputBytes = 32 << 20
	// keptJobs is how many ended jobs are remembered.
	keptJobs = 1000
)

// Server is the stand-in's HTTP side: the webhook, and the result of a job.
type Server struct {
	workspace string
	token     string
	flows     *Workspace
	variables Variables
	log       *slog.Logger
	mux       *http.ServeMux

	ctx     context.Context //nolint:containedctx // the jobs' life, ended by Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	jobs  map[string]*job
	ended []string
}

// job is the state of one execution, in the words of Windmill's API.
type job struct {
	Completed bool `json:"completed"`
	Success   bool `json:"success"`
	Result    any  `json:"result"`
}

// New prepares the stand-in for the workspace of that name. token is what the
// webhook's caller must bear.
func New(name, token string, flows *Workspace, variables Variables, log *slog.Logger) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		workspace: name, token: token, flows: flows, variables: variables, log: log, mux: http.NewServeMux(),
		ctx: ctx, cancel: cancel, jobs: map[string]*job{},
	}
	s.mux.HandleFunc("POST /api/w/{workspace}/jobs/run/f/{path...}", s.authorized(s.serveRun))
	s.mux.HandleFunc("GET /api/w/{workspace}/jobs_u/completed/get_result_maybe/{id}", s.authorized(s.serveResult))
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close ends the jobs that run and waits for them. A job that is ended so runs
// no failure module, like one whose worker is lost.
func (s *Server) Close() {
	s.cancel()
	s.running.Wait()
}

func (s *Server) authorized(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case !bearer || subtle.ConstantTimeCompare([]byte(given), []byte(s.token)) != 1:
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
		case r.PathValue("workspace") != s.workspace:
			http.Error(w, "Not found: no such workspace", http.StatusNotFound)
		default:
			next(w, r)
		}
	}
}

// serveRun starts a job and answers with its UUID, bare, as Windmill does.
func (s *Server) serveRun(w http.ResponseWriter, r *http.Request) {
	path := r.PathValue("path")
	flow, known := s.flows.flows[path]
	if !known {
		http.Error(w, "Not found: no flow "+path, http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxInputBytes))
	if err != nil {
		http.Error(w, "Bad request: the body cannot be read or is too large", http.StatusBadRequest)
		return
	}
	decoded, err := decode(body)
	input, isObject := decoded.(map[string]any)
	if err != nil || !isObject {
		http.Error(w, "Bad request: the body must be a JSON object", http.StatusBadRequest)
		return
	}
	id := s.start(path, flow, input)
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, id) // the caller went away: the job runs all the same
}

func (s *Server) start(path string, flow *flowFile, input map[string]any) string {
	id := newUUID()
	s.mu.Lock()
	s.jobs[id] = &job{}
	s.mu.Unlock()
	r := &run{workspace: s.workspace, id: id, path: path, flow: flow, variables: s.variables, log: s.log}
	s.running.Go(func() {
		result, err := r.execute(s.ctx, input)
		if err != nil {
			s.log.Error("a job failed", "job", id, "flow", path, "error", err)
			result = map[string]any{"error": map[string]any{"name": "ExecutionErr", "message": err.Error()}}
		}
		s.end(id, &job{Completed: true, Success: err == nil, Result: result})
	})
	return id
}

// newUUID stays away from the uuid package's shared pool, which the WARC library
// of the other stand-in switches on, unguarded, where both share a process.
func newUUID() string {
	return uuid.Must(uuid.NewRandomFromReader(rand.Reader)).String()
}

func (s *Server) end(id string, state *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[id] = state
	s.ended = append(s.ended, id)
	if len(s.ended) > keptJobs {
		delete(s.jobs, s.ended[0])
		s.ended = s.ended[1:]
	}
}

func (s *Server) serveResult(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	state, known := s.jobs[r.PathValue("id")]
	s.mu.Unlock()
	if !known {
		http.Error(w, fmt.Sprintf("Not found: no job %q", r.PathValue("id")), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(state) // the client went away: nobody is left to tell
}
