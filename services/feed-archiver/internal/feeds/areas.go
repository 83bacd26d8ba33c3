package feeds

import (
	"fmt"
	"strconv"
	"strings"
)

// Area is a named part of the world.
type Area struct {
	Name string
	// Box is west,south,east,north in degrees, or world.
	Box string
}

// Areas is a list of areas, as a setting.
type Areas []Area

// UnmarshalText reads the form that the setting documents.
func (a *Areas) UnmarshalText(setting []byte) error {
	seen := map[string]bool{}
	var areas Areas
	for entry := range strings.SplitSeq(string(setting), ";") {
		name, box, _ := strings.Cut(strings.TrimSpace(entry), "=")
		if checkName(name) != nil || seen[name] {
			return fmt.Errorf("an area needs a name that no other has; %q has not", entry)
		}
		if box != "world" && !isBox(box) {
			return fmt.Errorf("area %q is neither world nor west,south,east,north", name)
		}
		seen[name] = true
		areas = append(areas, Area{Name: name, Box: box})
	}
	*a = areas
	return nil
}

func isBox(s string) bool {
	sides := strings.Split(s, ",")
	for _, side := range sides {
		degrees, err := strconv.ParseFloat(side, 64)
		if err != nil || degrees < -180 || degrees > 180 {
			return false
		}
	}
	return len(sides) == 4
}
