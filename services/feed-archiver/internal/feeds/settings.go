package feeds

import (
	"fmt"
	"strings"
	"time"
)

// Settings hold what can be set for the sources. The prefix of each group is
// the source's name in capitals: MUNIMENT_FEED_NWS_ALERTS_URL and so on. What
// is known of a feed only by belief is a setting here.
type Settings struct {
	// ReadTimeout bounds one read with all its pages. It must stay under the time
	// after which the database refuses a read as long past (five minutes unless
	// max_fetch_age says otherwise); else the archiver does not start.
	ReadTimeout time.Duration `env:"READ_TIMEOUT" envDefault:"4m"`

	NWSAlerts            NWSAlertsSettings       `envPrefix:"NWS_ALERTS_"`
	USGSEarthquakes      USGSEarthquakesSettings `envPrefix:"USGS_EARTHQUAKES_"`
	NHCCurrentStorms     Endpoint                `envPrefix:"NHC_CURRENT_STORMS_"`
	NHCATCFBestTrack     Endpoint                `envPrefix:"NHC_ATCF_BEST_TRACK_"`
	SPCDay1Outlook       Endpoint                `envPrefix:"SPC_DAY1_OUTLOOK_"`
	NIFCPerimeters       NIFCPerimetersSettings  `envPrefix:"NIFC_PERIMETERS_"`
	NWSDATSurveys        NWSDATSurveysSettings   `envPrefix:"NWS_DAT_SURVEYS_"`
	USGSSTNHWMs          USGSSTNHWMsSettings     `envPrefix:"USGS_STN_HWMS_"`
	USGSShakeMapProducts Endpoint                `envPrefix:"USGS_SHAKEMAP_PRODUCTS_"`
	USGSShakeMapContours Endpoint                `envPrefix:"USGS_SHAKEMAP_CONTOURS_"`
	NHCWindSwath         Endpoint                `envPrefix:"NHC_WIND_SWATH_"`
	NHCForecastCone      Endpoint                `envPrefix:"NHC_FORECAST_CONE_"`
	NHCSurge             NHCSurgeSettings        `envPrefix:"NHC_SURGE_"`
	NASAFIRMS            NASAFIRMSSettings       `envPrefix:"NASA_FIRMS_"`
	OpenFEMADeclarations OpenFEMASettings        `envPrefix:"OPENFEMA_DECLARATIONS_"`
}

// NWSAlertsSettings are the settings of nws_alerts.
type NWSAlertsSettings struct {
	Endpoint
	// Queries are the requests, separated by semicolons: a name of one's own with
	// its parameters ("tornado?event=Tornado%20Warning,Tornado%20Watch"), or one
	// of active (no filter), storm, tropical, heat_wind, fire_weather, flood and
	// winter, which ask for the events of that kind.
	Queries Queries `env:"QUERIES" envDefault:"active"`
}

// USGSEarthquakesSettings are the settings of usgs_earthquakes.
type USGSEarthquakesSettings struct {
	Endpoint
	// Feeds are the summary feeds that are read, each a request: all_hour,
	// all_day, all_week, all_month, or those of a magnitude. A revision is seen
	// as long as its event is in the feed.
	Feeds []string `env:"FEEDS" envDefault:"all_day"`
}

// NIFCPerimetersSettings are the settings of nifc_perimeters.
type NIFCPerimetersSettings struct {
	Endpoint
	// PageSize is how many perimeters a page is asked to have. One of a large fire
	// can be a megabyte, so it is far below the service's own limit.
	PageSize int `env:"PAGE_SIZE" envDefault:"500"`
}

// NWSDATSurveysSettings are the settings of nws_dat_surveys.
type NWSDATSurveysSettings struct {
	Endpoint
	// Layers are the layers that are read, each a request: 0 points, 1 lines,
	// 2 polygons.
	Layers []string `env:"LAYERS" envDefault:"0,1,2"`
	// Where is the SQL condition of every query. Surveys change for months after
	// their storm; the whole history is hundreds of pages, and the service keeps
	// it itself. That every layer has stormdate is believed: 1=1 asks for all.
	Where string `env:"WHERE" envDefault:"stormdate >= CURRENT_TIMESTAMP - INTERVAL '400' DAY"`
}

// USGSSTNHWMsSettings are the settings of usgs_stn_hwms.
type USGSSTNHWMsSettings struct {
	Endpoint
	// Events are the events whose marks are read, each a request; none asks for
	// all marks in one, some 26 MB.
	Events []string `env:"EVENTS"`
	// Format is json or csv. Of the JSON answer no recorded body is known.
	Format string `env:"FORMAT" envDefault:"json"`
}

// NHCSurgeSettings are the settings of nhc_surge.
type NHCSurgeSettings struct {
	Endpoint
	// Member is what every feature of the layer has, in whatever case; other
	// features are another layer's. No recorded body of this layer is known, and
	// that it has names is what its readers say: OBJECTID takes any layer's.
	Member string `env:"MEMBER" envDefault:"name"`
}

// NASAFIRMSSettings are the settings of nasa_firms.
type NASAFIRMSSettings struct {
	Endpoint
	// MapKey is the key, from a file. Without one nothing is read, unless URL
	// names an address that needs none.
	MapKey string `env:"MAP_KEY_FILE,file"`
	// Products and Areas are multiplied: each pair is a request. An area is
	// name=west,south,east,north; areas are separated by semicolons, and
	// world=world is the whole.
	Products []string `env:"PRODUCTS" envDefault:"VIIRS_SNPP_NRT,VIIRS_NOAA20_NRT,VIIRS_NOAA21_NRT,MODIS_NRT"`
	Areas    Areas    `env:"AREAS" envDefault:"usa=-125,24,-66,50;alaska=-170,51,-129,72;hawaii=-161,18,-154,23"`
	// Days is the window, 1 to 5.
	Days string `env:"DAYS" envDefault:"1"`
}

// OpenFEMASettings are the settings of openfema_declarations.
type OpenFEMASettings struct {
	Endpoint
	// PageSize is how many rows a page is asked to have; the service gives at most
	// 10,000.
	PageSize int `env:"PAGE_SIZE" envDefault:"10000"`
}

// Validate checks what the fields cannot say alone.
func (s *Settings) Validate(prefix string) error {
	for _, source := range Sources {
		if err := source.endpoint(s).validate(prefix + strings.ToUpper(source.Name) + "_"); err != nil {
			return err
		}
	}
	switch {
	case s.ReadTimeout <= 0:
		return fmt.Errorf("%sREAD_TIMEOUT (%s) must be positive", prefix, s.ReadTimeout)
	case s.NIFCPerimeters.PageSize < 1 || s.NIFCPerimeters.PageSize > arcgisPage:
		return fmt.Errorf("%sNIFC_PERIMETERS_PAGE_SIZE must be 1 to %d", prefix, arcgisPage)
	case s.OpenFEMADeclarations.PageSize < 1 || s.OpenFEMADeclarations.PageSize > 10000:
		return fmt.Errorf("%sOPENFEMA_DECLARATIONS_PAGE_SIZE must be 1 to 10000", prefix)
	case s.USGSSTNHWMs.Format != "json" && s.USGSSTNHWMs.Format != "csv":
		return fmt.Errorf("%sUSGS_STN_HWMS_FORMAT must be json or csv, not %q", prefix, s.USGSSTNHWMs.Format)
	case len(s.NASAFIRMS.Days) != 1 || s.NASAFIRMS.Days < "1" || s.NASAFIRMS.Days > "5":
		return fmt.Errorf("%sNASA_FIRMS_DAYS must be 1 to 5, not %q", prefix, s.NASAFIRMS.Days)
	case s.NASAFIRMS.MapKey != "" && len(s.NASAFIRMS.MapKey) < 8:
		return fmt.Errorf("%sNASA_FIRMS_MAP_KEY_FILE holds no key", prefix)
	}
	return nil
}
