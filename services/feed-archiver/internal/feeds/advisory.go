package feeds

import (
	"regexp"
	"strconv"
	"time"
)

// advisoryZones are the zones that the hurricane centers write, in hours east
// of UTC. An abbreviation that is not here is not guessed at.
var advisoryZones = map[string]int{
	"UTC": 0, "GMT": 0, "CVT": -1, "AST": -4, "EDT": -4, "EST": -5, "CDT": -5, "CST": -6,
	"MDT": -6, "MST": -7, "PDT": -7, "PST": -8, "HST": -10,
}

var advisoryForm = regexp.MustCompile(`^([0-9]{1,2})([0-9]{2}) (?:(AM|PM) )?([A-Z]{3}) ([A-Z][a-z]{2} [A-Z][a-z]{2} [0-9]{1,2} [0-9]{4})$`)

// advisoryTime reads "800 PM PDT Fri Jul 17 2026", and the older form
// "240617/2100", which is UTC.
func advisoryTime(s string) *time.Time {
	if t := clock(s, "060102/1504"); t != nil {
		return t
	}
	part := advisoryForm.FindStringSubmatch(s)
	if part == nil {
		return nil
	}
	east, known := advisoryZones[part[4]]
	day, err := time.Parse("Mon Jan 2 2006", part[5])
	hour, ok := hourOfDay(part[1], part[3])
	minute, _ := strconv.Atoi(part[2])
	if !known || !ok || minute > 59 || err != nil || day.Format("Mon") != part[5][:3] {
		return nil
	}
	return plausible(day.Add(time.Duration(hour-east)*time.Hour + time.Duration(minute)*time.Minute))
}

func hourOfDay(digits, half string) (int, bool) {
	hour, err := strconv.Atoi(digits)
	switch {
	case err != nil:
		return 0, false
	case half == "":
		return hour, hour < 24
	case hour < 1 || hour > 12:
		return 0, false
	case half == "AM":
		return hour % 12, true
	}
	return hour%12 + 12, true
}
